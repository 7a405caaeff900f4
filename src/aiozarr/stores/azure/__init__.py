"""Azure Blob Storage, behind `ObjectStore`: where a container is, as whom it is asked, and how."""
