// Package planfile is how plans of CUDA devices lie on disk: what the compiler of
// FlatBuffers makes of plan.fbs. It decides nothing; package executor writes such
// bytes, and says which it believes.
package planfile

//go:generate sh -c "PATH=../../.venv/bin:$PATH flatc --go --gen-onefile --go-namespace planfile -o . plan.fbs && gofmt -w plan_generated.go"
