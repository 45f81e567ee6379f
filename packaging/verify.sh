#!/bin/sh
# Installs a .deb in a bare Debian, serves one request with each program, removes the package and
# looks for what it left. Run as root: verify.sh PACKAGE.deb ROOT [SUITE]
set -eu

package=$1
root=$2
suite=${3:-bookworm}

if [ ! -e "$root/etc/debian_version" ]; then
    debootstrap --variant=minbase "$suite" "$root"
fi
# The bare system keeps its own rules for names and packages.
cp /etc/resolv.conf "$root/etc/resolv.conf"
rm -f "$root/etc/apt/sources.list"
for file in /etc/apt/sources.list /etc/apt/sources.list.d /etc/apt/apt.conf.d /etc/apt/trusted.gpg.d; do
    [ ! -e "$file" ] || cp -rT "$file" "$root$file"
done
cp "$package" "$root/tmp/oneslot.deb"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
# What is taken down here must not be taken down there.
mount --make-rslave "$root/dev"
trap 'umount -l "$root/proc" "$root/dev"' EXIT

inside() {
    chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
        DEBIAN_FRONTEND=noninteractive LANG=C.UTF-8 "$@"
}

everything() {
    (cd "$root" && find . -xdev \( -path ./proc -o -path ./dev -o -path ./tmp \) -prune -o -print) |
        grep -vE '^\./(var/(cache|lib/(apt|dpkg|systemd|dbus)|log|tmp)|run|root|etc/ld.so.cache|etc/machine-id)' |
        sort
}

echo '== install'
inside apt-get update -qq
# What the check itself needs is there before, so that it is not taken for the package's.
inside apt-get install -qq --yes --no-install-recommends xvfb xauth dbus curl ca-certificates >/dev/null
inside apt-get install -qq --yes --no-install-recommends /tmp/oneslot.deb >/dev/null
inside dpkg --listfiles oneslot
inside apt-mark showauto >"$root/tmp/with"

echo '== oneslotd serves'
inside sh -euc '
    oneslotd serve --demo --listen 127.0.0.1:18411 --state /tmp/d >/tmp/d.out 2>&1 &
    daemon=$!
    for _ in $(seq 50); do grep -q "^listening on" /tmp/d.out && break; sleep 0.2; done
    cat /tmp/d.out
    curl -fsS http://127.0.0.1:18411/v1/chat/completions -H "content-type: application/json" \
        -d "{\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}"
    echo
    kill "$daemon"; wait "$daemon" || true'

echo '== oneslot serves and shows its panel'
inside sh -euc '
    xvfb-run -a dbus-run-session -- sh -euc "
        oneslot --demo --listen 127.0.0.1:18412 --state /tmp/t --show-panel >/tmp/t.out 2>&1 &
        tray=\$!
        for _ in \$(seq 100); do curl -fsS http://127.0.0.1:18412/healthz >/dev/null 2>&1 && break; sleep 0.2; done
        curl -fsS http://127.0.0.1:18412/v1/chat/completions -H \"content-type: application/json\" \
            -d \"{\\\"messages\\\":[{\\\"role\\\":\\\"user\\\",\\\"content\\\":\\\"hello\\\"}]}\"
        echo
        for _ in \$(seq 100); do grep -lq WebKitWebProces /proc/[0-9]*/comm && break; sleep 0.2; done
        grep -h WebKit /proc/[0-9]*/comm
        kill \$tray; wait \$tray || true
    "'

echo '== remove'
inside apt-get purge -qq --yes oneslot >/dev/null
left=$(everything | grep -i oneslot || true)
if [ -n "$left" ]; then
    echo "left behind: $left" >&2
    exit 1
fi
echo 'nothing of it is left'
