package cluster

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/chronik-io/chronik/internal/sorts"
)

// The states of a member.
const (
	statusOK      = "ok"
	statusPartly  = "partly"  // incomplete, with an error
	statusMissing = "missing" // not available
	statusSkipped = "skipped" // not applicable here
)

// manifest is the table of contents: manifest.json, and README.txt as text.
type manifest struct {
	Created  time.Time       `json:"created"`
	Version  string          `json:"chronikctl"` // version
	Brokers  string          `json:"brokers"`    // bootstrap brokers
	Admin    string          `json:"admin"`      // the admin port's address; empty for none
	Redacted int             `json:"redacted"`   // number of masked secrets
	Members  []manifestEntry `json:"members"`
}

// manifestEntry is a member in the manifest.
type manifestEntry struct {
	Name    string  `json:"name"`
	Source  string  `json:"source"` // a command line of chronikctl, a path on the admin port, or a file
	Status  string  `json:"status"` // ok, partly, missing or skipped
	Bytes   int     `json:"bytes"`
	Seconds float64 `json:"seconds"` // duration
	Error   string  `json:"error,omitempty"`
}

// archive writes the members, with secrets masked, and the manifest.
func (m *manifest) archive(w io.Writer, dir string, members []bundleMember, r *redactor) error {
	sorts.Sort(members, func(x, y bundleMember) int { return cmp.Compare(x.name, y.name) })
	zip := gzip.NewWriter(w)
	out := tar.NewWriter(zip)
	put := func(name string, text []byte) error {
		head := &tar.Header{Name: dir + "/" + name, Mode: 0o600, Size: int64(len(text)), ModTime: m.Created, Format: tar.FormatPAX}
		if err := out.WriteHeader(head); err != nil {
			return err
		}
		_, err := out.Write(text)
		return err
	}
	for _, x := range members {
		text, n := r.mask(x.text)
		e := manifestEntry{Name: x.name, Source: x.source, Status: statusOK, Bytes: len(text),
			Seconds: x.took.Round(time.Millisecond).Seconds()}
		if x.err != nil {
			why, k := r.mask([]byte(x.err.Error()))
			n += k
			e.Error = strings.TrimPrefix(string(why), errSkipped.Error()+": ")
			switch {
			case len(text) > 0:
				e.Status = statusPartly
			case errors.Is(x.err, errSkipped):
				e.Status = statusSkipped
			default:
				e.Status = statusMissing
			}
		}
		m.Redacted += n
		m.Members = append(m.Members, e)
		if x.err == nil || len(text) > 0 {
			if err := put(x.name, text); err != nil {
				return err
			}
		}
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	clean, _ := r.mask(append(text, '\n')) // addresses and file names may contain secrets, too
	about, _ := r.mask(m.readme())
	return errors.Join(put("manifest.json", clean), put("README.txt", about), out.Close(), zip.Close())
}

// readme returns the manifest as text.
func (m *manifest) readme() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "Written by chronikctl %s at %s.\nBrokers: %s. Admin port: %s.\n\n", m.Version, m.Created.Format(time.RFC3339),
		m.Brokers, cmp.Or(m.Admin, "none"))
	b.WriteString("The files contain no records, but the names of topics, groups, clients and hosts.\n")
	fmt.Fprintf(&b, "%[2]d passwords, tokens and keys were masked as %[1]s. Check the files before you share them.\n\n", masked, m.Redacted)
	for _, e := range m.Members {
		fmt.Fprintf(&b, "%-8s %-28s %s\n", e.Status, e.Name, e.Source)
		if e.Error != "" {
			fmt.Fprintf(&b, "%-8s %s\n", "", strings.ReplaceAll(e.Error, "\n", "\n         "))
		}
	}
	return []byte(b.String())
}
