"""From a request to a durable commit."""
