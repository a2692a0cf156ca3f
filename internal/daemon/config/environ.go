package config

import (
	"slices"
	"strings"

	"github.com/chronik-io/chronik/internal/text"
)

// EnvPrefix begins every variable that chronikd reads.
const EnvPrefix = "CHRONIK_"

// EnvFile names the variable that stands for --config.
const EnvFile = "CHRONIK_CONFIG"

// envBrokers is chronikctl's: it may stand in the environment of both.
const envBrokers = "CHRONIK_BROKERS"

// EnvName returns the variable of a setting: CHRONIK_NUM_PARTITIONS for
// num.partitions.
func EnvName(setting string) string {
	return EnvPrefix + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(setting))
}

// envMistaken is what people write who take the program's name for the prefix.
const envMistaken = "CHRONIKD_"

// environ takes the CHRONIK_* variables. One that is not known is a warning and
// no error: Kubernetes makes some up for a service called chronik. One that is
// empty counts as not set, which is all that many a composed file can say.
func (l *loader) environ(vars []string) {
	byEnv := make(map[string]string, len(l.names))
	known := []string{EnvFile}
	for _, name := range l.names {
		byEnv[EnvName(name)] = name
		known = append(known, EnvName(name))
	}
	for _, kv := range slices.Sorted(slices.Values(vars)) {
		env, value, _ := strings.Cut(kv, "=")
		if rest, mistaken := strings.CutPrefix(env, envMistaken); mistaken {
			line := "the variable " + env + " is not read: those of chronikd begin with " + EnvPrefix
			if near, ok := nearestEnv(EnvPrefix+rest, known); ok {
				line += "; did you mean " + near + "?"
			}
			l.cfg.Warnings = append(l.cfg.Warnings, line)
			continue
		}
		if !strings.HasPrefix(env, EnvPrefix) || env == EnvFile || env == envBrokers {
			continue
		}
		if name, ok := byEnv[env]; ok {
			if value != "" {
				l.put(env, name, value)
			}
			continue
		}
		line := "the variable " + env + " is not read: no setting has this name"
		if near, ok := nearestEnv(env, known); ok {
			line += "; did you mean " + near + "?"
		}
		if env == EnvName(keyListeners) || env == EnvName(keyProfiles) {
			line = "the variable " + env + " is not read: " + strings.ToLower(strings.TrimPrefix(env, EnvPrefix)) + " can be given in the file of --config only"
		}
		l.cfg.Warnings = append(l.cfg.Warnings, line)
	}
}

// nearestEnv compares without the prefix, which would make all names alike.
func nearestEnv(env string, known []string) (string, bool) {
	bare := make([]string, len(known))
	for i, k := range known {
		bare[i] = strings.ToLower(strings.TrimPrefix(k, EnvPrefix))
	}
	near, ok := text.Closest(strings.TrimPrefix(env, EnvPrefix), bare)
	return EnvPrefix + strings.ToUpper(near), ok
}
