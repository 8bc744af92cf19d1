"""Write functions that Relay lacks with its operators, for cells, importers and passes alike."""
