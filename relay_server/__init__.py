"""The hub between the sites."""
