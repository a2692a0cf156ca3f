// Package cert implements chronikctl cert: it shows certificates of brokers and of files.
//
// It needs no login: the certificates are in the TLS handshake. internal/security/certs reads the
// files, as a broker does. The exit code is 0 only if no certificate has a problem. The package
// knows nothing of Kafka's protocol.
package cert

import (
	"context"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/security/certs"
	"github.com/chronik-io/chronik/internal/security/files"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
)

// day is the unit in which lifetimes are shown.
const day = 24 * time.Hour

// New returns the command cert.
func New(a *app.App) *cobra.Command {
	c := app.Parent("cert", "Show and check certificates of brokers and of files", show(a))
	c.Aliases = []string{"certs", "certificate"}
	cli.Instead(c, map[string]string{
		"list":  "cert show does that",
		"check": "cert show does that; its exit code is 4 if something is wrong",
		"init":  "chronikd secure init makes certificates",
		"renew": "chronikd secure init --renew makes a new certificate",
	})
	return c
}

// entry is a certificate in the answer of show.
type entry struct {
	Source  string    `json:"source"` // a file, or a broker's address
	Subject string    `json:"subject"`
	Issuer  string    `json:"issuer"`
	Names   []string  `json:"names"`
	Key     string    `json:"key"`
	From    time.Time `json:"notBefore"`
	Expires time.Time `json:"expires"`
	Days    int       `json:"daysLeft"` // negative if it has expired
	Problem string    `json:"problem"`
}

func show(a *app.App) *cobra.Command {
	var days int
	c := &cobra.Command{
		Use: "show [FILE...]", Short: "Show certificates: subject, names and expiry",
		Args: app.Args(0, -1, "PEM files"),
		Long: "show lists the certificates that each of --brokers shows in the TLS handshake, or those in PEM files. It needs no login.\n" +
			"A certificate is a problem if it is not valid, or not for --days more, or if chronikctl refuses the broker that shows it.\n" +
			"Then the exit code is 4.",
		Example: "  chronikctl cert show ca.pem\n  chronikctl cert show --brokers b1.example.com:9093 --tls-ca ca.pem --days 30\n" +
			"  chronikctl cert show ca.pem -o json | jq -r '.[].expires'",
		RunE: func(cmd *cobra.Command, paths []string) error {
			all, err := found(cmd.Context(), a, paths)
			t := &output.Table{Columns: []string{"SOURCE", "SUBJECT", "NAMES", "+ISSUER", "+KEY", "EXPIRES", "DAYS#", "PROBLEM"},
				Empty: "no certificates"}
			wrong := 0
			for i := range all {
				e := &all[i]
				e.judge(time.Now(), days)
				if e.Problem != "" {
					wrong++
				}
				t.Add(e.Source, e.Subject, strings.Join(e.Names, ","), e.Issuer, e.Key, e.Expires.Format(time.DateTime), e.Days, e.Problem)
			}
			if len(all) > 0 || err == nil {
				err = errors.Join(a.Print(all, t), err)
			}
			if err == nil && wrong > 0 {
				err = app.WithCode(app.ExitUnhealthy, fmt.Errorf("%d of %d certificates have a problem", wrong, len(all)))
			}
			return err
		},
	}
	cli.AtLeast(0).Flag(c.Flags(), &days, "days", "", 0, "for how many days a certificate must still be valid")
	return c
}

// found returns the certificates of files, or of the brokers without files. With an error, it also
// returns those that it found.
func found(ctx context.Context, a *app.App, paths []string) ([]entry, error) {
	all, failed := []entry{}, []error{}
	for _, path := range paths {
		text, _, err := files.Read(path)
		var chain []*x509.Certificate
		if err == nil {
			chain, err = certs.Parse(text)
		}
		if err != nil {
			failed = append(failed, app.Usage("%s: %w; give a PEM file of certificates", path, err))
		}
		all = append(all, entries(path, chain)...)
	}
	if len(paths) > 0 {
		return all, errors.Join(failed...)
	}
	for _, at := range a.Settings.Seeds() {
		s, err := a.Certificates(ctx, at)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		chain := entries(at, s.Chain)
		chain[0].Problem = s.Refusal
		all = append(all, chain...)
	}
	return all, errors.Join(failed...)
}

func entries(source string, chain []*x509.Certificate) []entry {
	all := make([]entry, 0, len(chain))
	for _, c := range chain {
		e := entry{Source: source, Subject: certs.DN(c), Issuer: c.Issuer.String(), Names: append([]string{}, c.DNSNames...), Key: key(c),
			From: c.NotBefore.UTC(), Expires: c.NotAfter.UTC()}
		for _, ip := range c.IPAddresses {
			e.Names = append(e.Names, ip.String())
		}
		all = append(all, e)
	}
	return all
}

// judge sets what depends on the time.
func (e *entry) judge(now time.Time, days int) {
	e.Days = int(e.Expires.Sub(now) / day)
	switch {
	case e.Problem != "":
	case now.After(e.Expires):
		e.Problem = "it has expired: renew it"
	case now.Before(e.From):
		e.Problem = "it is valid from " + e.From.Format(time.DateTime) + " only: check the clock of this machine"
	case e.Expires.Sub(now) < time.Duration(days)*day:
		e.Problem = "it expires soon: renew it"
	}
}

// key describes a certificate's public key.
func key(c *x509.Certificate) string {
	switch k := c.PublicKey.(type) {
	case *rsa.PublicKey:
		return fmt.Sprintf("RSA %d", k.N.BitLen())
	case *ecdsa.PublicKey:
		return "ECDSA " + k.Params().Name
	}
	return c.PublicKeyAlgorithm.String()
}
