"""Gets a URL with a session of the requests library, several times, and writes the last body.

requests_get.py URL FILE
"""

import sys

import requests

url, path = sys.argv[1], sys.argv[2]
with requests.Session() as session:
    session.trust_env = False
    bodies = []
    for _ in range(5):
        answer = session.get(url, timeout=20)
        answer.raise_for_status()
        bodies.append(answer.content)
    if any(body != bodies[0] for body in bodies):
        sys.exit("bodies differ")
    missing = session.get(url + "-none", timeout=20)
    if missing.status_code != 404:
        sys.exit(f"status {missing.status_code} instead of 404")
with open(path, "wb") as file:
    file.write(bodies[0])
print("ok")
