"""The client: answers contract.Port over HTTP, one request for each command."""
