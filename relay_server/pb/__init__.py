"""Generated from proto/ by `python -m scripts.dev.generate_stubs`; do not edit."""
