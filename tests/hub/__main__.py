"""`python -m hub FOLDER PART_BYTES PAGE [XET]`: serve on a free port of 127.0.0.1 and print the endpoint."""

import sys
from pathlib import Path

from hub.server import Hub
from hub.store import Store

hub = Hub(Store(Path(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]) if sys.argv[4:] else None)
print(hub.url, flush=True)
hub.serve_forever()
