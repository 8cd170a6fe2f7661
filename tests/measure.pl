#!/usr/bin/perl
# measure.pl FILE COMMAND..: runs COMMAND and writes its wall and CPU seconds to FILE.
# measure.pl --append FILE COMMAND..: adds a line with the seconds and the last argument, a test file, to FILE.
#
# Orphaned servers count too, because this process becomes their parent instead of init.
use strict;
use warnings;

use Time::HiRes qw(time);

require 'syscall.ph';
use constant PR_SET_CHILD_SUBREAPER => 36;

my $appends = $ARGV[0] eq '--append' && shift;
my ($path, @command) = @ARGV;
my $began = time;
# The command receives the signal too and stops its servers.
$SIG{$_} = sub { } for qw(INT TERM HUP);
syscall(&SYS_prctl, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0 or die "could not become the parent of orphans: $!\n";
my $pid = fork // die "could not fork: $!\n";
if (!$pid) { exec { $command[0] } @command or die "could not run $command[0]: $!\n" }
my $status;
while (!defined $status) { $status = $? if wait == $pid }
my (undef, undef, $user, $system) = times;
open my $file, $appends ? '>>' : '>', $path or die "could not write $path: $!\n";
printf {$file} "%.1f %.1f%s\n", time - $began, $user + $system, $appends ? " $command[-1]" : '';
exit($status & 127 ? 128 + ($status & 127) : $status >> 8);
