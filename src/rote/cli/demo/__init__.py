"""The one-minute story that `rote demo` tells."""
