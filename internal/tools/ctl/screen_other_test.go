//go:build !linux

package ctl_test

import "github.com/rogpeppe/go-internal/testscript"

// screen needs the pseudo-terminals of Linux; scripts check [linux] first.
func screen(ts *testscript.TestScript, _ bool, _ []string) { ts.Fatalf("screen works on Linux only") }
