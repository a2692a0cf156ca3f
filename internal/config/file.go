package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/chronik-io/chronik/pkg/durability"
)

// maxListeners is the maximum length of the file's list.
const maxListeners = 64

// Settings whose keys can be written as a map: tls: {certificate: FILE}.
const (
	groupTLS   = "tls"
	groupOAuth = "oauth"
)

// file reads the YAML file: single values, listeners and profiles.
func (l *loader) file(in Input) {
	l.cfg.Listeners = []Listener{{Name: "default"}}
	top := l.parse(in)
	l.ungroup(in.File, top)
	for _, key := range slices.Sorted(maps.Keys(top)) {
		if ofFirst(key) && firstHas(top[keyListeners], key) {
			l.add(in.File, key, "the first entry of `listeners:` has it too; remove one of the two")
			continue
		}
		if field := fieldOf(key); field != "" && !ofFirst(key) {
			l.add(in.File, key, "in the file this belongs to the first entry of `listeners:`; write listeners: [{"+field+"}]")
			continue
		}
		if key == keyListeners || key == keyProfiles {
			continue
		}
		kafka, renamed := aliases()[key]
		if _, known := l.defs[key]; !known && !renamed {
			if name := l.nested(key, top[key]); name != "" {
				l.add(in.File, key, "a name with dots is one key; write "+name+": VALUE on one line")
				continue
			}
			l.add(in.File, key, l.unknown(key, append([]string{keyListeners, keyProfiles, groupTLS, groupOAuth}, l.names...)))
			continue
		}
		value, err := scalar(top[key])
		if key == KeySuperUsers || key == KeyClusterPrincipal || kafka.name == KeySuperUsers {
			value, err = names(top[key])
		}
		switch {
		case err != nil:
			l.add(in.File, key, err.Error())
		case renamed && kafka.name != "" && top[kafka.name] != nil:
			l.add(in.File, key, "is Kafka's name of "+kafka.name+", which the file has too; remove one of the two")
		case renamed:
			l.alias(in.File, key, value)
		default:
			l.put(in.File, key, value)
		}
	}
	if v, ok := top[keyListeners]; ok {
		l.fileListeners(in.File, v)
	}
	l.fileProfiles(in, top[keyProfiles])
}

// ofFirst reports whether the file may set a setting of the first listener also without a list.
func ofFirst(key string) bool { return key == KeyListen || key == KeyAdvertise }

// firstHas reports whether the first entry of the file's list has a key.
func firstHas(listeners any, key string) bool {
	list, _ := listeners.([]any)
	if len(list) == 0 {
		return false
	}
	first, _ := list[0].(map[string]any)
	_, has := first[key]
	return has
}

// InListeners reports whether a setting is one of the entries of `listeners:`.
func InListeners(name string) bool { return fieldOf(name) != "" }

// fieldOf returns how the file writes a setting that belongs to an entry of `listeners:`, or "".
func fieldOf(key string) string {
	switch key {
	case KeyListen, KeyAdvertise:
		return key + ": HOST:PORT"
	case KeySecurity:
		return KeySecurity + ": " + WithTLS
	case KeySASL:
		return KeySASL + ": [SCRAM-SHA-512]"
	case KeyClientCerts:
		return fieldClientCerts + ": " + string(CertificatesRequire)
	}
	return ""
}

// ungroup replaces the maps of tls and oauth by their keys.
func (l *loader) ungroup(source string, top map[string]any) {
	for _, group := range []string{groupTLS, groupOAuth} {
		v, ok := top[group]
		if !ok {
			continue
		}
		delete(top, group)
		for key, value := range l.fields(source, group, v, l.keysOf(group)) {
			if _, twice := top[group+"."+key]; twice {
				l.add(source, group+"."+key, "is there twice; remove one of the two")
			}
			top[group+"."+key] = value
		}
	}
}

// keysOf returns the keys of a group of settings, without its name.
func (l *loader) keysOf(group string) []string {
	var keys []string
	for _, name := range l.names {
		if key, ok := strings.CutPrefix(name, group+"."); ok {
			keys = append(keys, key)
		}
	}
	return keys
}

// names formats a list of principals in Kafka's form, whose separator a name cannot contain.
func names(v any) (string, error) {
	list, ok := v.([]any)
	if !ok {
		return scalar(v)
	}
	parts := make([]string, len(list))
	for i, e := range list {
		var err error
		if parts[i], err = scalar(e); err != nil {
			return "", err
		}
	}
	return strings.Join(parts, ";"), nil
}

// nested returns the setting that nested keys were meant as, because YAML users may expect the
// parts of a name to be levels; "" if there is none.
func (l *loader) nested(key string, v any) string {
	m, ok := v.(map[string]any)
	if !ok {
		_, known := l.defs[key]
		if known {
			return key
		}
		return ""
	}
	for _, below := range slices.Sorted(maps.Keys(m)) {
		if name := l.nested(key+"."+below, m[below]); name != "" {
			return name
		}
	}
	return ""
}

// parse returns the top level of the file, nil if there is none.
func (l *loader) parse(in Input) map[string]any {
	if in.File == "" {
		return nil
	}
	text, err := in.ReadFile(in.File)
	if err != nil {
		cause := err
		if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
			cause = pe.Err
		}
		l.add(in.File, "", fmt.Sprintf("cannot read the configuration file: %v; check --config and %s", cause, EnvFile))
		return nil
	}
	if documents(text) > 1 {
		l.add(in.File, "", "has more than one document, of which only the first would be read; remove the lines that begin with ---")
		return nil
	}
	var settings map[string]any
	if err := yaml.Unmarshal(text, &settings); err != nil {
		l.add(in.File, "", notSettings(err))
		return nil
	}
	return settings
}

// notSettings rewords the parser's error about a file that it cannot read.
func notSettings(err error) string {
	text := strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "yaml: ")), " ")
	text, typed := strings.CutPrefix(text, "unmarshal errors: ")
	switch {
	case strings.Contains(text, "already defined"):
		return text + "; remove one of the two"
	case typed:
		return "has no settings at its top level; write one `name: value` on each line, as `chronikd config print-defaults` does"
	default:
		return "is not valid YAML: " + text + "; `chronikd config print-defaults` prints a valid file"
	}
}

// documents counts the documents that lines beginning with --- separate. Such a line before the
// first setting separates nothing.
func documents(text []byte) int {
	n, some := 1, false
	for line := range strings.Lines(string(text)) {
		switch rest, marker := strings.CutPrefix(line, "---"); {
		case marker && (rest == "" || strings.ContainsAny(rest[:1], " \t\r\n")):
			if some {
				n++
			}
		case strings.TrimSpace(line) != "" && line[0] != '#' && line[0] != '%':
			some = true
		}
	}
	return n
}

// scalar formats a YAML value as the other sources would write it. A list of single values becomes
// Kafka's comma-separated form.
func scalar(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case int, int64, uint64:
		return fmt.Sprint(v), nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			if _, nested := e.([]any); nested {
				return "", errors.New("is a list of lists; write one list of single values")
			}
			s, err := scalar(e)
			if err != nil {
				return "", err
			}
			parts[i] = s
		}
		return strings.Join(parts, ","), nil
	case nil:
		return "", errors.New("has no value; write one, or leave out the key for the default")
	default:
		return "", fmt.Errorf("takes a single value, not %s", kind(v))
	}
}

func kind(v any) string {
	switch v.(type) {
	case map[string]any:
		return "keys below it"
	case []any:
		return "a list"
	case nil:
		return "nothing"
	default:
		return fmt.Sprintf("%v", v)
	}
}

// fields returns the single values of a map that may have only known keys.
func (l *loader) fields(source, where string, v any, known []string) map[string]string {
	m, ok := v.(map[string]any)
	if !ok {
		l.add(source, where, fmt.Sprintf("is %s; write keys below it, of %s", kind(v), strings.Join(known, ", ")))
		return nil
	}
	out := make(map[string]string, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains(known, key) {
			l.add(source, where+"."+key, unknown("key", key, known, "use "+strings.Join(known, ", ")))
			continue
		}
		value, err := scalar(m[key])
		if err != nil {
			l.add(source, where+"."+key, err.Error())
			continue
		}
		out[key] = value
	}
	return out
}

// fileListeners reads the list of listeners.
func (l *loader) fileListeners(source string, v any) {
	list, ok := v.([]any)
	if !ok || len(list) == 0 || len(list) > maxListeners {
		l.add(
			source,
			keyListeners,
			fmt.Sprintf("is not a list of 1 to %d entries; write listeners: [{listen: %s}]", maxListeners, DefaultListen),
		)
		return
	}
	l.cfg.Listeners = l.cfg.Listeners[:0]
	for i, entry := range list {
		where := fmt.Sprintf("%s[%d]", keyListeners, i)
		over := l.overOf(source, where, entry)
		m := l.fields(source, where, entry, []string{"name", KeyListen, KeyAdvertise, KeySecurity, KeySASL, fieldClientCerts,
			fieldMaxConns, fieldMaxRate, fieldRoute, groupTLS})
		delete(m, groupTLS)
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if err := listenerField(key, m[key]); err != nil {
				l.add(source, where+"."+key, err.Error())
			}
		}
		if i > 0 && m != nil && (m["name"] == "" || m[KeyListen] == "") {
			l.add(source, where, "has no name or no listen; every listener after the first needs both")
		}
		name := m["name"]
		if name == "" {
			name = "default"
		}
		most, _ := strconv.Atoi(m[fieldMaxConns]) // listenerField has accepted them; 0 without one
		rate, _ := strconv.Atoi(m[fieldMaxRate])
		l.cfg.Listeners = append(l.cfg.Listeners, Listener{Name: name, MaxConnections: most, MaxConnectionRate: rate,
			Forward: m[fieldRoute] == routeForward,
			Listen:  m[KeyListen], Advertise: m[KeyAdvertise],
			SASL: split(m[KeySASL], ","), security: m[KeySecurity], clientCerts: m[fieldClientCerts], over: over})
	}
	// Later sources can override the first listener, so its values are settings like others.
	if first := l.cfg.Listeners[0]; l.err() == nil {
		for name, value := range map[string]string{KeyListen: first.Listen, KeyAdvertise: first.Advertise, KeySecurity: first.security,
			KeySASL: strings.Join(first.SASL, ","), KeyClientCerts: first.clientCerts} {
			if value != "" {
				l.put(source, name, value)
			}
		}
	}
}

// fieldClientCerts is the key of client.certificates in an entry of `listeners:`.
const fieldClientCerts = "client-certificates"

// fieldRoute is the key of an entry of `listeners:` that says which brokers its address is for.
const (
	fieldRoute   = "route"
	routeDirect  = "direct"
	routeForward = "forward"
)

// Keys of an entry of `listeners:` for Kafka's configs of one listener,
// listener.name.NAME.max.connections and listener.name.NAME.max.connection.creation.rate.
const (
	fieldMaxConns = "max-connections"
	fieldMaxRate  = "max-connection-creation-rate"
)

// overOf returns a listener's own keys of `tls:`, and leaves a single value in its place.
func (l *loader) overOf(source, where string, entry any) map[string]string {
	m, ok := entry.(map[string]any)
	if !ok || m[groupTLS] == nil {
		return nil
	}
	over := l.fields(source, where+"."+groupTLS, m[groupTLS], l.keysOf(groupTLS))
	for _, key := range slices.Sorted(maps.Keys(over)) {
		if check := l.defs[groupTLS+"."+key].Check; check != nil {
			if err := check(over[key]); err != nil {
				l.add(source, where+"."+groupTLS+"."+key, err.Error())
			}
		}
	}
	m[groupTLS] = ""
	return over
}

// listenerName is what a listener may be named.
var listenerName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,32}$`)

func listenerField(key, v string) error {
	switch key {
	case KeyListen:
		return bindAddress(v)
	case KeyAdvertise:
		return dialAddress(v)
	case KeySecurity:
		return oneOf([]string{Plaintext, WithTLS})(v)
	case KeySASL:
		return sasl(v)
	case fieldClientCerts:
		return clientCertificates(v)
	case fieldRoute:
		return oneOf([]string{routeDirect, routeForward})(v)
	case fieldMaxConns, fieldMaxRate:
		return integer(1, math.MaxInt32)(v)
	}
	if listenerName.MatchString(v) {
		return nil
	}
	return fmt.Errorf("%q is not a valid name; use 1 to 32 letters, digits, _ and -", v)
}

// listeners applies --listen and --advertise to the first listener and checks for duplicates.
func (l *loader) listeners() {
	l.cfg.Listeners[0].Listen = l.value(KeyListen)
	l.cfg.Listeners[0].Advertise = l.value(KeyAdvertise)
	for i, x := range l.cfg.Listeners {
		where, source := fmt.Sprintf("%s[%d]", keyListeners, i), l.cfg.File
		if i == 0 {
			where, source = KeyListen, l.source(KeyListen)
		}
		for _, earlier := range l.cfg.Listeners[:i] {
			if strings.EqualFold(x.Name, earlier.Name) { // configs of a listener have its name in lower case
				l.add(source, where, fmt.Sprintf("the name %q is taken by an earlier listener; give each its own", x.Name))
			}
			if overlap(x.Listen, earlier.Listen) {
				l.add(
					source,
					where,
					fmt.Sprintf("%s and %s of an earlier listener have the same port; give each its own", x.Listen, earlier.Listen),
				)
			}
		}
		if !x.Forward && strings.Contains(x.Advertise, "{id}") {
			l.add(source, where, fmt.Sprintf("%s has {id} in advertise, which is for listeners with route: forward; write this broker's address",
				x.Name))
		}
		if overlap(x.Listen, l.cfg.AdminListen) {
			if source == SourceDefault {
				source = l.source(KeyAdminListen) // admin.listen was set explicitly
			}
			l.add(
				source,
				where,
				fmt.Sprintf("%s and %s of %s have the same port; give each its own", x.Listen, l.cfg.AdminListen, KeyAdminListen),
			)
		}
	}
}

// fileProfiles reads the custom durability profiles of the program and of the file; v is nil if the
// file has none.
func (l *loader) fileProfiles(in Input, v any) {
	source := in.File
	m, ok := v.(map[string]any)
	if !ok && v != nil {
		l.add(source, keyProfiles, "is "+kind(v)+"; write profiles: {NAME: {ack: synced, max_wait: 5ms}}")
	}
	custom := slices.Clone(in.Profiles)
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if p, ok := l.profile(source, name, m[name]); ok {
			custom = append(custom, p)
		}
	}
	set, err := durability.NewSet(custom...)
	if err != nil {
		l.add(source, keyProfiles, err.Error())
		set, _ = durability.NewSet()
	}
	l.cfg.Durability = set
}
