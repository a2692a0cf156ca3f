// Package page is the page at / of the admin port: it shows a person with a browser what the broker
// does and what is wrong with it.
//
// It owns the HTML, which Go functions build, its style and script, and the History of the last
// hour, from which it draws plots. The style and the script are embedded, and the server renders
// the HTML: the page works without JavaScript, loads nothing from other sites, and its
// Content-Security-Policy forbids inline scripts and inline styles. The script only refreshes the
// page in place and shows the values of a plot under the pointer.
//
// The cost of a request is bounded: lists are paged, texts and records are cut at fixed limits, and
// the History has a fixed size. Without requests the page does nothing except one sample every five
// seconds.
//
// The package knows no component of the broker, only a Source, so that a test can show any broker.
// The admin package decides which requests are allowed: Routes marks the one path whose response
// contains clients' records.
package page
