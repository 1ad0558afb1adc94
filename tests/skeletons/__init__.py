"""Files to copy: see CONTRIBUTING.md."""
