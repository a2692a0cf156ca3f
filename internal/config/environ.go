package config

import (
	"slices"
	"strings"

	"github.com/chronik-io/chronik/internal/text"
)

// EnvPrefix is the prefix of every variable that chronikd reads.
const EnvPrefix = "CHRONIK_"

// EnvFile is the variable that replaces --config.
const EnvFile = "CHRONIK_CONFIG"

// envBrokers is read by chronikctl; both programs may share an environment.
const envBrokers = "CHRONIK_BROKERS"

// EnvName returns the variable of a setting: CHRONIK_NUM_PARTITIONS for num.partitions.
func EnvName(setting string) string {
	return EnvPrefix + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(setting))
}

// envMistaken is the prefix that people write who assume that it is the program's name.
const envMistaken = "CHRONIKD_"

// environ reads the CHRONIK_* variables. An unknown one is a warning and not an error, because
// Kubernetes sets some for a service that is called chronik. An empty one counts as not set,
// because many compose files cannot leave a variable out.
func (l *loader) environ(vars []string) {
	byEnv := make(map[string]string, len(l.names))
	known := []string{EnvFile}
	for _, name := range l.names {
		byEnv[EnvName(name)] = name
		known = append(known, EnvName(name))
	}
	kafka := make(map[string]string)
	for name := range aliases() {
		kafka[EnvName(name)] = name
		known = append(known, EnvName(name))
	}
	for _, kv := range slices.Sorted(slices.Values(vars)) {
		env, value, _ := strings.Cut(kv, "=")
		if rest, mistaken := strings.CutPrefix(env, envMistaken); mistaken {
			line := "the variable " + env + " is not read: chronikd's variables begin with " + EnvPrefix
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
		if name, ok := kafka[env]; ok {
			if value != "" {
				l.alias(env, name, value)
			}
			continue
		}
		line := "the variable " + env + " is not read: no setting has this name"
		if near, ok := nearestEnv(env, known); ok {
			line += "; did you mean " + near + "?"
		}
		if env == EnvName(keyListeners) || env == EnvName(keyProfiles) {
			line = "the variable " + env + " is not read: " + strings.ToLower(
				strings.TrimPrefix(env, EnvPrefix),
			) + " can only be set in the file of --config"
		}
		l.cfg.Warnings = append(l.cfg.Warnings, line)
	}
}

// nearestEnv compares names without the prefix, which would make all of them similar.
func nearestEnv(env string, known []string) (string, bool) {
	bare := make([]string, len(known))
	for i, k := range known {
		bare[i] = strings.ToLower(strings.TrimPrefix(k, EnvPrefix))
	}
	near, ok := text.Closest(strings.TrimPrefix(env, EnvPrefix), bare)
	return EnvPrefix + strings.ToUpper(near), ok
}
