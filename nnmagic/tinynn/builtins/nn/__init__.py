"""Define the functions of cells that follow PyTorch."""
