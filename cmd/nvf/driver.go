//go:build cgo

package main

import (
	"nvfuser_go/cudadrv"
	"nvfuser_go/cudadrv/real"
)

// driver is the machine's.
func driver() (cudadrv.Driver, error) { return real.Driver{}, nil }
