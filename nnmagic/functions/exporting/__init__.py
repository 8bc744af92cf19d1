"""Write compiled functions as C: libraries, headers, archives."""
