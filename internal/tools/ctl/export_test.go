package ctl

import "github.com/chronik-io/chronik/internal/tools/ctl/app"

// Unlisted returns the commands that no line begins with.
func Unlisted(lines []string) []string { return unlisted(Root(app.New("test", app.Streams{})), lines) }
