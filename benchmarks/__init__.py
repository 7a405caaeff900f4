"""What aiozarr costs, measured: beside its peers, stage by stage, and as reads grow."""
