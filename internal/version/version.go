// Package version holds the release number of the project.
//
// Its central value is [String], read from the file VERSION beside it, which
// pyproject.toml reads too: a release is one edit.
package version

import (
	_ "embed"
	"strings"
)

//go:embed VERSION
var file string

// String is the release number, such as "0.1.0".
var String = strings.TrimSpace(file)
