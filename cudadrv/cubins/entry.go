package cubins

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"slices"

	"nvfuser_go/cudadrv"
)

// A key names an entry.
type key struct {
	kind kind
	sum  [sha256.Size]byte // of all that the entry depends on
}

// A kind of entries is how the names of their files end.
type kind string

const (
	machineCode kind = ".cubin"
	plan        kind = ".plan"
)

// format is in every key and file; it changes with what a file means.
const format = "nvfuser_go entry 2\n"

// keyOf returns the key of an entry that depends on the given things.
func keyOf(k kind, things ...string) key {
	h := sha256.New()
	write(h, format)
	write(h, string(k))
	for _, x := range things {
		write(h, x)
	}
	return key{k, [sha256.Size]byte(h.Sum(nil))}
}

// codeKey returns the key of the code of a text, whose sum is given.
func codeKey(text [sha256.Size]byte, o cudadrv.CompileOptions, compiler string) key {
	return keyOf(machineCode, slices.Concat([]string{compiler, string(text[:])}, o.Flags())...)
}

// write adds a text with its length, so that no two lists are alike.
func write(h hash.Hash, text string) {
	var size [8]byte
	binary.LittleEndian.PutUint64(size[:], uint64(len(text)))
	h.Write(size[:])
	h.Write([]byte(text))
}

func (k key) file() string { return fmt.Sprintf("%x%s", k.sum[:], k.kind) }

// encode returns the bytes of a file: format, sum of the key, body, and a hash of
// these.
func encode(k key, body []byte) []byte {
	b := append(slices.Grow([]byte(format), 2*sha256.Size+len(body)), k.sum[:]...)
	b = append(b, body...)
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

// decode returns the body that encode was given, or why the bytes are not of that
// key.
func decode(k key, b []byte) ([]byte, error) {
	const head = len(format) + sha256.Size
	end := len(b) - sha256.Size
	if end < head {
		return nil, errors.New("it is cut short")
	}
	if sum := sha256.Sum256(b[:end]); !bytes.Equal(sum[:], b[end:]) {
		return nil, errors.New("its checksum is wrong")
	}
	if !bytes.HasPrefix(b, append([]byte(format), k.sum[:]...)) {
		return nil, errors.New("it holds something else")
	}
	return b[head:end:end], nil
}

// encodeCode returns the body of machine code: length of the log, log, code.
func encodeCode(c cudadrv.Compiled) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(c.Log)))
	return append(append(b, c.Log...), c.Cubin...)
}

// decodeCode returns what encodeCode was given; false if b is nothing of the kind.
func decodeCode(b []byte) (c cudadrv.Compiled, ok bool) {
	const head = 8
	if len(b) < head {
		return c, false
	}
	size := binary.LittleEndian.Uint64(b)
	if size > uint64(len(b)-head) {
		return c, false
	}
	end := head + int(size)
	return cudadrv.Compiled{Log: string(b[head:end]), Cubin: b[end:]}, true
}
