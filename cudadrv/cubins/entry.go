package cubins

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"

	"nvfuser_go/cudadrv"
)

// A key names an entry: a hash of all that the code depends on.
type key [sha256.Size]byte

// format is in every key and file; it changes with what a file means.
const format = "nvfuser_go cubin 1\n"

func keyOf(source string, o cudadrv.CompileOptions, compiler string) key {
	h := sha256.New()
	write(h, format)
	write(h, compiler)
	for _, f := range o.Flags() {
		write(h, f)
	}
	write(h, source)
	return key(h.Sum(nil))
}

// write adds a text with its length, so that no two lists are alike.
func write(h hash.Hash, text string) {
	var size [8]byte
	binary.LittleEndian.PutUint64(size[:], uint64(len(text)))
	h.Write(size[:])
	h.Write([]byte(text))
}

func (k key) file() string { return fmt.Sprintf("%x%s", k[:], suffix) }

const suffix = ".cubin"

// encode returns the bytes of a file: format, key, length of the log, log, code,
// and a hash of these.
func encode(k key, c cudadrv.Compiled) []byte {
	b := append([]byte(format), k[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(c.Log)))
	b = append(append(b, c.Log...), c.Cubin...)
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

// decode returns what encode was given, or why the bytes are not of that key.
func decode(k key, b []byte) (cudadrv.Compiled, error) {
	const head = len(format) + sha256.Size + 8
	body := len(b) - sha256.Size
	if body < head {
		return cudadrv.Compiled{}, errors.New("it is cut short")
	}
	if sum := sha256.Sum256(b[:body]); !bytes.Equal(sum[:], b[body:]) {
		return cudadrv.Compiled{}, errors.New("its checksum is wrong")
	}
	if !bytes.HasPrefix(b, append([]byte(format), k[:]...)) {
		return cudadrv.Compiled{}, errors.New("it holds something else")
	}
	size := binary.LittleEndian.Uint64(b[head-8:])
	if size > uint64(body-head) {
		return cudadrv.Compiled{}, errors.New("its lengths are wrong")
	}
	end := head + int(size)
	return cudadrv.Compiled{Log: string(b[head:end]), Cubin: b[end:body:body]}, nil
}
