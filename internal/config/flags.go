package config

import (
	"slices"
	"strings"
)

// Flagged returns the settings that have a flag, in the order of --help.
func Flagged() []string {
	return []string{KeyDataDir, KeyListen, KeyAdminListen, KeyAdvertise, KeyWALProfile, KeyProduceProfile, KeyLogLevel}
}

// FlagName returns the flag of a setting, without dashes before it.
func FlagName(setting string) string { return strings.ReplaceAll(setting, ".", "-") }

// Named returns a setting as an error names it: with its flag, if it has one.
func Named(setting string) string {
	if slices.Contains(Flagged(), setting) {
		return setting + " (--" + FlagName(setting) + ")"
	}
	return setting
}
