"""An application for uvicorn: the same answer to every request."""


async def application(scope, receive, send):
    if scope["type"] != "http":
        return
    head = {"type": "http.response.start", "status": 200}
    await send({**head, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"hello\n"})
