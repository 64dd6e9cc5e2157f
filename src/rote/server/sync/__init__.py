"""Sessions on `/v1/sync`: one WebSocket each."""
