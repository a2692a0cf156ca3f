package cli

import "runtime/debug"

// Version returns the version of the program: the one that the linker was given, or that of the
// module if `go install module/cmd/name@version` built it, or "dev".
func Version(linked string) string {
	if linked != "" {
		return linked
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "dev"
	}
	return moduleVersion(info)
}

// moduleVersion returns the version of the main module of a program.
func moduleVersion(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	return "dev"
}
