# Does Ctrl-C in a terminal end a run of tests and every server it started, and does no run wait for the terminal?
use strict;
use warnings;

use Clairon::Test qw(wait_until scratch top);
use POSIX ();
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;

# A checkout with the machinery of this one, and tests of its own.
my $checkout = scratch() . '/checkout';
sub file
{
    my ($path, $text) = @_;
    open my $file, '>', "$checkout/$path" or die "could not write $path: $!";
    print {$file} $text;
    close $file or die "could not write $path: $!";
    chmod 0755, "$checkout/$path";
    return;
}
mkdir "$checkout$_" or die "could not make $checkout$_: $!" for '', '/build', '/tests', '/tests/tap';
symlink top() . "/$_", "$checkout/$_" or die "could not link $_: $!"
  for qw(docker build/root build/clairon tests/check.sh tests/bounded.sh tests/env.sh tests/roots.sh tests/perl);

file('Makefile', "%:\n\t\@tests/\$@\n");
file('tests/tap/waits.pl', <<"END");
use Clairon::Test;
use Test::More;
my \$pg = Clairon::Test::postgresql('main');
my \$relay = Clairon::Test::relay(\$pg, Clairon::Test::store());
pass('started');
open my \$ready, '>', '$checkout/ready';
sleep 1 while 1;
END
file('tests/layer', <<'END');
#!/bin/bash
exec tests/check.sh tap client
END
# As what runs in a Debian root, which may ask at the terminal. It takes no root, and would go on.
file('tests/recorded', <<'END');
#!/bin/bash
set -euo pipefail
. tests/roots.sh
id() { echo 0; }
waits() {
    read -r line </dev/tty || echo "no terminal"
    read -r line || echo "no input"
    touch ready
    sleep 1000
    touch went_on
    sleep 1000
}
record waits "a test that waits" waits
END

# The terminal's output; the process that has it; and what runs, by a path or a variable of ours.
my ($terminal, $pid, $screen);
sub run_in_terminal
{
    my ($goal) = @_;
    unlink "$checkout/ready";
    $screen = "$checkout/screen";
    local %ENV = (%ENV, CLAIRON_WORK => "$checkout/build/work", CLAIRON_ROOTS => "$checkout/build/roots",
        TMPDIR => $checkout, CLAIRON_IN_TERMINAL => $checkout, SHELL => '/bin/bash');
    delete @ENV{qw(TESTS TESTDIR TESTDATADIR TESTLOGDIR CLAIRON_BOUNDED MAKEFLAGS MAKELEVEL)};
    $pid = open $terminal, '|-', 'script', '-qefc', "make -C $checkout $goal", '-O', $screen
      or die "could not start script: $!";
    $terminal->autoflush(1);
    return;
}

# What has ended meanwhile has no words.
sub words_of
{
    my ($path) = @_;
    open my $file, '<', $path or return '';
    local $/;
    return (<$file> // '') =~ tr/\0/ /r;
}

sub still_running
{
    return grep {
        my ($process) = m{(\d+)$};
        $process != $pid && (words_of("$_/cmdline") . words_of("$_/environ")) =~ /\Q$checkout\E/
          && Clairon::Test::lives($process);
    } glob '/proc/[0-9]*';
}

# Ctrl-C; the status that the terminal's command ended with.
sub interrupt
{
    print {$terminal} "\cC";
    my $status;
    wait_until('the terminal is free again', sub { waitpid($pid, POSIX::WNOHANG()) == $pid and defined($status = $?) });
    return $status;
}

sub shown { my $text = slurp_file($screen); return $text =~ s/\r//gr }
sub names_of { return map { words_of("$_/cmdline") } @_ }

END { kill KILL => map { m{(\d+)$} } still_running() if $pid }

run_in_terminal('layer');
wait_until('a test runs with its servers', sub { -e "$checkout/ready" });
my @servers = grep { /postgres -D|valkey|redis|keydb|clairon relay/ } names_of(still_running());
is(scalar @servers, 3, 'a layer runs in a terminal, with three servers') or diag(@servers);
isnt(interrupt(), 0, 'Ctrl-C is a failure of the run');
is_deeply([ names_of(still_running()) ], [], 'and nothing it started is left');
like(shown(), qr/---- interrupted by SIGINT in tap$/m, 'it says so');
unlike(shown(), qr/^---- client$/m, 'and starts no other layer');

run_in_terminal('recorded');
wait_until('a recorded test waits neither for the terminal nor for input', sub { -e "$checkout/ready" });
isnt(interrupt(), 0, 'Ctrl-C is a failure of a recorded test');
is_deeply([ names_of(still_running()) ], [], 'and nothing it started is left');
ok(!-e "$checkout/went_on", 'it goes no further');
ok(!-e "$checkout/build/waits.log", 'and no log is there to be counted');

done_testing();
