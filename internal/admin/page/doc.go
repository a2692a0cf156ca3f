// Package page is the page at / of the admin port: what the broker does and what
// is wrong with it, for a person with a browser.
//
// It owns the HTML, its style and script, and the History from which it draws the
// last hour. Everything is embedded and rendered by the server: the page works
// without JavaScript, loads nothing from elsewhere, and its Content-Security-Policy
// forbids both inline scripts and inline styles. The script only refreshes the page in
// place and shows the values of a plot under the pointer.
//
// A request costs what it shows: lists are paged, texts and records are cut at
// fixed bounds, and the History has a fixed size. Nothing is computed while no
// browser asks, except one sample every five seconds.
//
// The package knows a Source and no other package of the broker, so that a test
// shows it any broker. The admin package decides who may ask for what: Routes
// marks the one path that answers with data of clients' records.
package page
