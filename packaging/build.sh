#!/usr/bin/env bash
# Builds a Debian package and a container image from the wheel (`make deb`, `make image`).
#
#   packaging/build.sh deb      dist/bcs-scheduler_VERSION_ARCH.deb: an environment of Python of its own in /opt/bcs-scheduler
#   packaging/build.sh image    the image bcs-scheduler:VERSION, in the container engine that `docker` reaches
#
# Both have the interpreter and the Debian release of this machine. The base system of the image and the dependencies
# from PyPI are kept in TOOLS_CACHE, and made again when they are older than PACKAGE_CACHE_DAYS (7).
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022
unset PYTHONPATH PYTHONHOME

PYTHON=/usr/bin/python3
ENVIRONMENT=/opt/bcs-scheduler
BUILT_BY=.venv/bin/python
CACHE=${TOOLS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/bcs-scheduler}
DAYS=${PACKAGE_CACHE_DAYS:-7}
WORK=build/packages
VERSION=$(sed -n 's/^version = //p' setup.cfg)
ARCH=$(dpkg --print-architecture)
DEB=dist/bcs-scheduler_${VERSION}_$ARCH.deb
RELEASE=$(. /etc/os-release && echo "$VERSION_CODENAME")
INTERPRETER=$("$PYTHON" -c 'import sys; print(*sys.version_info[:2], sep=".")')

fail() { echo "$1" >&2; exit 1; }

# kept NAME: whether the cache has it, and it is young enough.
kept() { test -n "$(find "$CACHE/$1" -maxdepth 0 -mtime "-$DAYS" 2>/dev/null)"; }

wheel() {
    rm -rf "$WORK/wheel" "$WORK/lib"
    "$BUILT_BY" -m pip wheel --quiet --no-deps --wheel-dir "$WORK/wheel" .
    echo "$WORK"/wheel/*.whl
}

# The environment with the dependencies of the wheel $1 and without the wheel, below the folder $2.
dependencies() {
    local wanted name
    wanted=$("$BUILT_BY" -c 'import configparser; c = configparser.ConfigParser(); c.read("setup.cfg"); print(c["options"]["install_requires"].strip())')
    name=dependencies-$RELEASE-$(printf '%s %s %s' "$wanted" "$INTERPRETER" "$ARCH" | sha256sum | cut -c1-16)
    if ! kept "$name.tar"; then
        rm -rf "$WORK/dependencies"
        "$PYTHON" -m venv --without-pip "$WORK/dependencies$ENVIRONMENT"
        # shellcheck disable=SC2086  # one requirement a word
        "$BUILT_BY" -m pip --python "$WORK/dependencies$ENVIRONMENT/bin/python" install --quiet --no-compile $wanted
        compiled "$WORK/dependencies"
        mkdir -p "$CACHE"
        rm -f "$CACHE"/dependencies-*
        tar -C "$WORK/dependencies" -cf "$CACHE/$name.tar.new" .
        mv "$CACHE/$name.tar.new" "$CACHE/$name.tar"
        rm -rf "$WORK/dependencies"
    fi
    tar -C "$2" -xf "$CACHE/$name.tar"
}

# Users cannot write below /opt: the compiled modules are in the package. Paths in tracebacks are those of the target.
compiled() {
    "$PYTHON" -m compileall -q -s "$1" -p / --invalidation-mode unchecked-hash "$1$ENVIRONMENT/lib" >/dev/null || true
}

# The files of the package below the folder $1.
files() {
    local root=$1 packed bin=$1$ENVIRONMENT/bin
    packed=$(wheel)
    rm -rf "$root"
    mkdir -p "$root"
    dependencies "$packed" "$root"
    "$BUILT_BY" -m pip --python "$bin/python" install --quiet --no-deps --no-compile "$packed"
    find "$bin" -type f ! -name 'bcs*' -delete
    # The programs of an environment begin with its path.
    sed -i "1s,^#!.*,#!$ENVIRONMENT/bin/python," "$bin"/bcs*
    sed -i '/^command = /d' "$root$ENVIRONMENT/pyvenv.cfg"
    compiled "$root"
    mkdir -p "$root/usr/bin" "$root/usr/lib/systemd/system" "$root/etc/bcs-scheduler" "$root/usr/share/doc/bcs-scheduler"
    for program in bcs bcs-scheduler bcs-executor; do ln -s "$ENVIRONMENT/bin/$program" "$root/usr/bin/$program"; done
    cp conf/bcs-scheduler.service "$root/usr/lib/systemd/system/"
    cp conf/scheduler.toml conf/tokens.toml "$root/etc/bcs-scheduler/"
    chmod 0644 "$root"/etc/bcs-scheduler/* "$root"/usr/lib/systemd/system/*
    "$bin/python" -m bcs_scheduler.main manual "$root/usr/share" >/dev/null
    gzip -9n "$root"/usr/share/man/man1/*
    mv "$root/usr/share/zsh/site-functions" "$root/usr/share/zsh/vendor-completions"
    cp LICENSE "$root/usr/share/doc/bcs-scheduler/copyright"
    gzip -9nc CHANGELOG.md >"$root/usr/share/doc/bcs-scheduler/changelog.gz"
}

deb() {
    local root=$WORK/deb next
    next=${INTERPRETER%.*}.$((${INTERPRETER#*.} + 1))
    files "$root"
    mkdir -p "$root/DEBIAN" dist
    cp packaging/debian/postinst packaging/debian/prerm packaging/debian/postrm "$root/DEBIAN/"
    chmod 0755 "$root"/DEBIAN/*
    printf '%s\n' /etc/bcs-scheduler/scheduler.toml /etc/bcs-scheduler/tokens.toml >"$root/DEBIAN/conffiles"
    sed -e "s/@VERSION@/$VERSION/" -e "s/@ARCH@/$ARCH/" -e "s/@PYTHON@/$INTERPRETER/" -e "s/@NEXT@/$next/" \
        -e "s/@SIZE@/$(du -sk --apparent-size "$root" | cut -f1)/" packaging/debian/control >"$root/DEBIAN/control"
    (cd "$root" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
    dpkg-deb --root-owner-group -Zzstd -z6 --build "$root" "$DEB" >/dev/null
    rm -rf "$root"
    echo "$DEB"
}

# A Debian system with Python and the user of the service.
base() {
    local name=base-$RELEASE-$ARCH.tar sources
    if ! kept "$name"; then
        command -v mmdebstrap >/dev/null || fail "mmdebstrap is missing: apt-get install mmdebstrap"
        for sources in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list.d/ubuntu.sources /etc/apt/sources.list; do
            test -s "$sources" && break
        done
        mkdir -p "$CACHE"
        mmdebstrap --quiet --variant=minbase --include=python3,ca-certificates,adduser \
            --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
            "$RELEASE" "$CACHE/$name.new.tar" "$sources" >&2
        mv "$CACHE/$name.new.tar" "$CACHE/$name"
    fi
    echo "$CACHE/$name"
}

image() {
    local context=$WORK/image root=$WORK/image/root system
    system=$(base)
    rm -rf "$context"
    files "$root"
    set_in "$root/etc/bcs-scheduler/scheduler.toml" listen 0.0.0.0:8080
    set_in "$root/etc/bcs-scheduler/scheduler.toml" tokens_file /etc/bcs-scheduler/tokens.toml
    set_in "$root/etc/bcs-scheduler/scheduler.toml" format json
    cp "$system" "$context/system.tar"
    # One archive and one layer: some storage drivers copy the whole system for each layer.
    tar -C "$root" --append --owner=0 --group=0 --numeric-owner -f "$context/system.tar" .
    rm -rf "$root"
    docker build --quiet --network none --file conf/Dockerfile --tag "bcs-scheduler:$VERSION" --tag bcs-scheduler:latest "$context" >/dev/null
    rm -rf "$context"
    echo "bcs-scheduler:$VERSION"
}

# set_in FILE NAME VALUE: the only setting of that name.
set_in() {
    test "$(grep -c "^$2 = " "$1")" = 1 || fail "$1: not one setting $2"
    sed -i "s|^$2 = .*|$2 = \"$3\"|" "$1"
}

mkdir -p "$WORK"
case "${1:-}" in
    deb | image | base) "$1" ;;
    *) fail "usage: $0 deb|image" ;;
esac
