"""The HTTP server of the API: uvicorn in a thread, with bounds on requests, and WebSockets for sessions."""
