#!/bin/bash
# Makes python.wasm and lib.zip of CPython's source package, in the folder given as $1 (a new temporary one otherwise),
# and puts them into the folder above. Needs Debian's apt, bookworm or later, as root, for compiler and sources; and go.
# Takes two to four minutes on two cores. Then put the sum of python.wasm into internal/exec/sandbox/wasm/generate_py.go, and
# `go generate ./internal/exec/sandbox/wasm` translates it to Go and makes the golden image.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$(dirname "$here")
work=${1:-$(mktemp -d)}
mkdir -p "$work"
cd "$work"
jobs=$(nproc)

release=trixie
python=3.13.5-2+deb13u5
zlib=1:1.3.dfsg+really1.3.1-1
libc=0.0~git20241209.574b88d-2
tz=2026c-0+deb13u1
cat >sums <<'EOF'
4be84e20fb902354fa86955e2fbea6e8bdbd158f54833423488308a9b3532662  python3.13_3.13.5-2+deb13u5.dsc
93e583f243454e6e9e4588ca2c2662206ad961659863277afcdb96801647d640  python3.13_3.13.5.orig.tar.xz
a51f456e654ce2c9b40cc1db8005e5041cdb0b2c3aa96ab0871c49fe95280366  python3.13_3.13.5-2+deb13u5.debian.tar.xz
ede2791e29c1d3b422f9208bdd7edf040c20445ea1e7453a72037576e64fa197  zlib_1.3.dfsg+really1.3.1-1.dsc
9ed525955ce9fb0c1b39be8ff98f73450dbfc6305a9a27e6149c8972d38a0a9e  zlib_1.3.dfsg+really1.3.1-1.debian.tar.xz
60dd315c07f616887caa029408308a018ace66e3d142726a97db164b3b8f69fb  zlib_1.3.dfsg+really1.3.1.orig.tar.gz
b7716260051d289248b7667f81fa2792c125d888ff51da3fa09c6272cc0bd11d  wasi-libc_0.0~git20241209.574b88d-2_all.deb
813b9bbbe14ccda2b24617b8bade0ade4d745957e75921766c153d249886bd4c  tzdata_2026c-0+deb13u1_all.deb
2779c2f5e9582fb501c592ec44d1d4421e0add97d25631926673be817a221028  tzdata-legacy_2026c-0+deb13u1_all.deb
EOF

# 1. The compiler, of this machine's own release, and the sources, of $release, from the same mirror.
tools="clang-19 lld-19 llvm-19 libclang-rt-19-dev-wasm32 dpkg-dev gcc make xz-utils"
dpkg -s $tools >/dev/null 2>&1 || { apt-get update && apt-get install -y --no-install-recommends $tools; }
mirror=$( (cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null || true) | grep -oE "https?://[^ ]+/debian/?( |\$)" | head -1 | tr -d " ")
mkdir -p apt/lists/partial apt/archives/partial apt/parts
printf 'Types: deb deb-src\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n' "$mirror" $release >apt/parts/debian.sources
printf 'Dir::State::Lists "%s/apt/lists";\nDir::Cache "%s/apt";\nDir::Etc::SourceList "/dev/null";\nDir::Etc::SourceParts "%s/apt/parts";\nAPT::Sandbox::User "root";\n' "$work" "$work" "$work" >apt/apt.conf
export APT_CONFIG=$work/apt/apt.conf
sha256sum --quiet -c sums 2>/dev/null || {
  apt-get update
  apt-get source --download-only python3.13=$python zlib=$zlib
  apt-get download wasi-libc=$libc tzdata=$tz tzdata-legacy=$tz
  sha256sum --quiet -c sums
}
unset APT_CONFIG
rm -rf src zsrc sysroot tzroot
dpkg-source -x python3.13_$python.dsc src
dpkg-source -x zlib_${zlib#*:}.dsc zsrc
dpkg-deb -x wasi-libc_*.deb sysroot
dpkg-deb -x tzdata_*.deb tzroot
dpkg-deb -x tzdata-legacy_*.deb tzroot

# 2. A native interpreter of the same source, which freezes and compiles the library.
mkdir -p native
(cd native && CFLAGS=-O1 ../src/configure --without-ensurepip --disable-test-modules && make -j"$jobs" python pybuilddir.txt) >native.log 2>&1

# 3. zlib and CPython for WASI.
target="--target=wasm32-wasi --sysroot=$work/sysroot/usr -ffile-prefix-map=$work=/build"
flags="-g0 -O2 -mbulk-memory -mnontrapping-fptoint"
mkdir -p zlib
(cd zlib && for f in adler32 compress crc32 deflate infback inffast inflate inftrees trees uncompr zutil; do
  clang-19 $target $flags -c ../zsrc/$f.c -o $f.o
done && rm -f libz.a && llvm-ar-19 rcsD libz.a ./*.o)
mkdir -p build
(
  cd build
  export CC="clang-19 $target" CPP="clang-19 $target -E" AR=llvm-ar-19 RANLIB=llvm-ranlib-19 CFLAGS="$flags" PKG_CONFIG=false SOURCE_DATE_EPOCH=1767225600
  export ZLIB_CFLAGS="-I$work/zsrc" ZLIB_LIBS="$work/zlib/libz.a" CONFIG_SITE=../src/Tools/wasm/config.site-wasm32-wasi
  # What has no place in a sandbox without network, processes and threads, or needs a library.
  for m in _socket select fcntl mmap resource termios syslog grp pwd readline nis _posixsubprocess _multiprocessing _posixshmem _interpreters _interpchannels _interpqueues \
    _lsprof _bz2 _lzma _curses _curses_panel _dbm _gdbm _hashlib _ssl _sqlite3 _uuid _tkinter _ctypes _ctypes_test _scproxy \
    _multibytecodec _codecs_cn _codecs_hk _codecs_iso2022 _codecs_jp _codecs_kr _codecs_tw; do
    export py_cv_module_$m=n/a
  done
  ../src/configure --host=wasm32-unknown-wasi --build=x86_64-linux-gnu --with-build-python="$work/native/python" --prefix=/ \
    --without-doc-strings --with-pymalloc --without-mimalloc --without-ensurepip --disable-test-modules
  make -j"$jobs" python.wasm
  objects=$(make -n -W Programs/python.o python.wasm | grep -oE -- '-o python.wasm Programs/python.o.*' | tail -1 | sed 's/.*Programs\/python.o//')
  clang-19 $target $flags -DNDEBUG -I../src/Include -I. -c "$here/reactor.c" -o reactor.o
  clang-19 $target -mexec-model=reactor -z stack-size=8388608 -Wl,--stack-first -Wl,--strip-all -Wl,--export=__stack_pointer \
    -o "$out/python.wasm" reactor.o $objects
) >build.log 2>&1

# 4. The library, compiled and without docstrings, and the time zones.
rm -rf lib
native/python -E -S "$here/compile.py" src/Lib lib
cp -rL tzroot/usr/share/zoneinfo lib/timezones
(cd "$here" && go run pack.go "$work/lib" "$out/lib.zip")
sum=$(sha256sum "$out/lib.zip" | cut -d' ' -f1)
sed -i "s/^const LibrarySum = .*/const LibrarySum = \"$sum\"/" "$out/library.go"
ls -l "$out/python.wasm" "$out/lib.zip"
sha256sum "$out/python.wasm" "$out/lib.zip"
