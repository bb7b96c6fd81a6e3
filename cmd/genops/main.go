// Command genops writes the files that are made from tables, below the folder that
// -root names: from the op table the stub python/nvfuser_go/_ops.pyi and the page
// docs/ops.md, from the table of schedule primitives docs/schedule.md.
package main

import (
	"flag"
	"log"
	"os"
	"path/filepath"
)

func main() {
	root := flag.String("root", ".", "root of the repository, or another folder to write below")
	flag.Parse()
	for name, text := range map[string]string{
		"python/nvfuser_go/_ops.pyi": stub(),
		"docs/ops.md":                page(),
		"docs/schedule.md":           schedulePage(),
	} {
		path := filepath.Join(*root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
