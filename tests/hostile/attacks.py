"""What a stranger can send: raw frames and raw sockets, no token.

    attacks.py NAME ADDRESS METRICS_ADDRESS HTTP_ADDRESS SECONDS FOLDER

runs one attack for that long and ends with status 0, whatever the server did about it. An attack that
the server ends (closes the connection, say) begins again at once. Prints how many connections the
server ended, for the attacks that count them.
"""

import os
import resource
import sys

from attack import Attack
from floods import FLOODS
from holders import HOLDERS
from operations import OPERATIONS
from web import WEB

ATTACKS = {function.__name__: function for function in (*FLOODS, *HOLDERS, *OPERATIONS, *WEB)}


def main():
    name, address, metrics_address, http_address, seconds, folder = sys.argv[1:]
    # As many descriptors as the system lets this process have.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    # On another machine it would take none of the server's cores.
    os.nice(10)
    attack = Attack(address, metrics_address, http_address, float(seconds), folder)
    ATTACKS[name](attack)
    print(attack.ended)


if __name__ == "__main__":
    main()
