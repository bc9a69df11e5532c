# SPDX-License-Identifier: Apache-2.0
# Builds one Go file without touching the user's caches: go_build.sh FILE CGO_ENABLED
export GOCACHE="$PWD/cache" GOPATH="$PWD/path" GOTOOLCHAIN=local GOFLAGS=-mod=mod CGO_ENABLED=$2
printf 'module example\n\ngo 1.22\n' >go.mod
cp "$1" main.go
go build -o work .
