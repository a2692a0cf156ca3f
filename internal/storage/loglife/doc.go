// Package loglife defines the life cycle of a log and of a log directory: their states, the
// uses that each state allows, and the state that follows each event. It is a pure table without
// I/O, locks or a clock; package storage consults it before it acts and records events in it.
//
// # A log
//
//	opening ── opened ──▶ online ── segment failed ──▶ failing ── repaired ──▶ online
//	                                                   failing ── segment failed ──▶ failing
//	                                                   failing ── frames quarantined ──▶ quarantined ── replayed ──▶ failing
//	                                                                                     quarantined ── segment failed ──▶ quarantined
//
//	online ── swap begun ──▶ swapping ── swap done ──▶ online
//	                         swapping ── swap failed ──▶ swap stuck ── swap done ──▶ online
//	                                                     swap stuck ── swap failed ──▶ swap stuck
//	                                                     swap stuck ── frames quarantined ──▶ quarantined, swap stuck ── swap done ──▶ quarantined
//	                                                                                          quarantined, swap stuck ── swap failed ──▶ quarantined, swap stuck
//
//	online ── cut begun ──▶ cutting ── cut done ──▶ online
//	                        cutting ── cut failed ──▶ cut stuck ── cut done ──▶ online
//	                                                  cut stuck ── cut failed ──▶ cut stuck
//
//	{opening, online, cutting, cut stuck} ── unreadable ──▶ offline ── repaired ──▶ online
//	{opening, failing, quarantined, swap stuck, offline} ── found damaged ──▶ damaged
//	{any but opening and deleted} ── deletion ──▶ deleted
//
// Each state except online and swapping has one cause, an error that says why the log accepts no
// appends.
//
// # A role
//
// A log accepts an append if its state and its role allow it, and the append has the epoch of the
// role. The role changes while appends wait in the queue, so it is asked when offsets are assigned.
//
//	{no role, leading, held, following} ── lead ──▶ leading ── discarded ──▶ held ── resumed ──▶ leading
//	{no role, leading, held, following} ── lead behind ──▶ held
//	{no role, leading, held, following} ── follow ──▶ following
//
// # A log directory
//
//	opening ── recovered ──▶ running ── exhausted ──▶ blocked ── freed ──▶ running
//	                                                     blocked ── exhausted ──▶ blocked
//	{running, blocked} ── journal failed ──▶ journal dead ── reopened ──▶ running
//	                                         journal dead ── journal failed ──▶ journal dead
//	{running, blocked} ── stop ──▶ stopping ── journal failed ──▶ stopping, journal dead
//	                               stopping ── exhausted ──▶ stopping ── freed ──▶ stopping
//	journal dead ── stop ──▶ stopping, journal dead
//
// docs/journal.md shows the same tables, with the uses that each state allows.
package loglife
