#!/bin/sh
# Keys and certificates of a federation. Needs openssl and ssh-keygen. Nothing that exists is overwritten.
#
#   sh keys.sh server HOST...    on the server: an authority, and a certificate for these names or addresses of it
#   sh keys.sh node NAME         on each node: its key pair, and a certificate for what runs on that machine alone
#
# Private keys (*.key, and `key` of a node) never leave the machine that made them. A node gets server/ca.crt; the server
# gets the node's key.pub.
set -eu
umask 077
here=$(cd "$(dirname "$0")" && pwd)

certificate() {  # FOLDER NAMES: an authority of its own in FOLDER, and a certificate for NAMES that it signs
    openssl ecparam -name secp384r1 -genkey -noout -out "$1/ca.key"
    openssl req -x509 -new -key "$1/ca.key" -sha384 -days 825 -subj "/CN=askew federation authority" -out "$1/ca.crt" \
        -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign,cRLSign"
    openssl ecparam -name secp384r1 -genkey -noout -out "$1/tls.key"
    openssl req -new -key "$1/tls.key" -sha384 -subj "/CN=askew" -out "$1/tls.csr"
    printf 'subjectAltName=%s\nbasicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\n' "$2" > "$1/tls.ext"
    openssl x509 -req -in "$1/tls.csr" -CA "$1/ca.crt" -CAkey "$1/ca.key" -CAcreateserial -days 825 -sha384 \
        -extfile "$1/tls.ext" -out "$1/tls.crt" 2>/dev/null
    rm "$1/tls.csr" "$1/tls.ext"
}

new_folder() {
    if [ -e "$1" ]; then echo "keys.sh: $1 exists already; remove it first, or keep what it holds" >&2; exit 2; fi
    mkdir -p "$1"
}

case "${1:-}" in
server)
    shift
    names="DNS:localhost,IP:127.0.0.1"
    for host in "$@"; do
        case "$host" in
            localhost|127.0.0.1) ;;
            *[!0-9.]*) names="$names,DNS:$host" ;;
            *) names="$names,IP:$host" ;;
        esac
    done
    new_folder "$here/server"
    certificate "$here/server" "$names"
    echo "$here/server: ca.crt goes to the nodes; ca.key and tls.key stay here"
    ;;
node)
    name=${2:?"keys.sh node NAME"}
    case "$name" in *[!A-Za-z0-9._-]*|.*) echo "keys.sh: a node's name is made of letters, digits, . _ and -" >&2; exit 2 ;; esac
    new_folder "$here/nodes/$name"
    certificate "$here/nodes/$name" "DNS:localhost,IP:127.0.0.1"
    ssh-keygen -q -t ecdsa -b 384 -N "" -C "$name" -f "$here/nodes/$name/key"
    cat > "$here/nodes/$name/node.toml" <<END
client = "$name"
data = ""                # this node's examples, e.g. "table('/data/visits.csv', label='ill')" or "image_folder('/data/scans')"
report-labels = false    # whether the server may know how many examples of each class there are here
memory = "memory"        # what this client remembers between rounds, below this folder
device = "cpu"           # on which this client trains: "cpu", "cuda", "cuda:1"
END
    echo "$here/nodes/$name: key.pub goes to the server; the rest stays here; say in node.toml where the data are"
    ;;
*)
    echo "usage: sh keys.sh server HOST... | sh keys.sh node NAME" >&2
    exit 2
    ;;
esac
