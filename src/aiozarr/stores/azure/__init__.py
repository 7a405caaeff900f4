"""The client of containers of Azure Blob Storage."""
