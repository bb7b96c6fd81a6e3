//go:build !cgo

package main

import (
	"nvfuser_go/core"
	"nvfuser_go/cudadrv"
)

func driver() (cudadrv.Driver, error) {
	return nil, &core.Unsupported{What: "this program was built without C, which CUDA devices need"}
}
