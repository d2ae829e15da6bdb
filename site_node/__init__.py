"""One site: its stream in, its anonymised stream out."""
