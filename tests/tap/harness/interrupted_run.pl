# Tests that Ctrl-C in a terminal ends a test run with all its servers, and that no run waits for the terminal.
use strict;
use warnings;

use Clairon::Test qw(wait_until scratch top);
use POSIX ();
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;

# Creates a checkout with the scripts of this checkout and its own tests.
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
mkdir "$checkout$_" or die "could not make $checkout$_: $!" for '', qw(/bin /build /tests /tests/tap /tests/tap/harness /tests/e2e);
symlink top() . "/$_", "$checkout/$_" or die "could not link $_: $!"
  for qw(relay build/root build/clairon tests/perl tests/tools tests/e2e/parallel.py), map { "tests/$_.sh" } qw(check run as_root bounded env roots);

file('Makefile', "%:\n\t\@tests/\$@\n");
file('tests/tap/harness/waits.pl', <<"END");
use Clairon::Test;
use Test::More;
my \$pg = Clairon::Test::postgresql('main');
my \$relay = Clairon::Test::relay(\$pg, Clairon::Test::store());
pass('the child has started');
open my \$ready, '>', '$checkout/ready';
sleep 1 while 1;
END
file('tests/one_layer', <<'END');
#!/bin/bash
exec env LAYERS=1 tests/check.sh tap client
END
file('tests/two_layers', <<'END');
#!/bin/bash
exec tests/run.sh tap e2e
END
file('tests/e2e/test_waits.py', <<"END");
import os, signal, subprocess, time
signal.signal(signal.SIGTERM, signal.default_int_handler)
server = subprocess.Popen(["sleep", "1000"], env={**os.environ, "SERVER": "$checkout"}, start_new_session=True)
open("$checkout/second_ready", "w").close()
try:
    time.sleep(1000)
finally:
    server.kill()
END
# A script that runs as root could read from the terminal. Root is simulated.
file('tests/as_root', <<'END');
#!/bin/bash
exec tests/run.sh root
END
file('bin/id', <<'END');
#!/bin/bash
if grep -q as_root.sh "/proc/$PPID/cmdline"; then echo 0; else exec /usr/bin/id "$@"; fi
END
file('tests/root.sh', <<'END');
#!/bin/bash
read -r line </dev/tty || echo "no terminal"
read -r line || echo "no input"
echo "ok 1 - root"
touch ready
sleep 1000
touch went_on
sleep 1000
END

# The terminal's input, its process, and the file with its output. Processes of a run are identified by the checkout's
# path in their arguments or environment.
my ($terminal, $pid, $screen);
sub run_in_terminal
{
    my ($goal) = @_;
    unlink "$checkout/ready", "$checkout/second_ready";
    $screen = "$checkout/screen";
    local %ENV = (%ENV, CLAIRON_WORK => "$checkout/build/work", CLAIRON_ROOTS => "$checkout/build/roots",
        TMPDIR => $checkout, CLAIRON_IN_TERMINAL => $checkout, SHELL => '/bin/bash', PATH => "$checkout/bin:$ENV{PATH}");
    delete @ENV{qw(TESTS TIMES LAYERS TESTDIR TESTDATADIR TESTLOGDIR CLAIRON_RECORDED MAKEFLAGS MAKELEVEL)};
    $pid = open $terminal, '|-', 'script', '-qefc', "make -C $checkout $goal", '-O', $screen
      or die "could not start script: $!";
    $terminal->autoflush(1);
    return;
}

# Returns an empty string for a process that has ended.
sub arguments_of
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
        $process != $pid && (arguments_of("$_/cmdline") . arguments_of("$_/environ")) =~ /\Q$checkout\E/
          && Clairon::Test::is_running($process);
    } glob '/proc/[0-9]*';
}

# Presses Ctrl-C; returns the exit status of the terminal's command.
sub interrupt
{
    print {$terminal} "\cC";
    my $status;
    wait_until('the terminal is free', sub { waitpid($pid, POSIX::WNOHANG()) == $pid and defined($status = $?) });
    return $status;
}

sub screen_text { my $text = slurp_file($screen); return $text =~ s/\r//gr }
sub names_of { return map { arguments_of("$_/cmdline") } @_ }

END { kill KILL => map { m{(\d+)$} } still_running() if $pid }

run_in_terminal('one_layer');
wait_until('a test runs with its servers', sub { -e "$checkout/ready" });
my @servers = grep { /postgres -D|valkey|redis|keydb|clairon relay/ } names_of(still_running());
is(scalar @servers, 3, 'a layer runs in a terminal, with three servers') or diag(@servers);
isnt(interrupt(), 0, 'Ctrl-C fails the run');
is_deeply([ names_of(still_running()) ], [], 'Ctrl-C ends every process of the run');
like(screen_text(), qr/---- interrupted by SIGINT in tap$/m, 'the output contains the name of the layer');
unlike(screen_text(), qr/^---- client$/m, 'the next layer does not start');

run_in_terminal('two_layers');
wait_until('two layers run in parallel', sub { -e "$checkout/ready" && -e "$checkout/second_ready" });
isnt(interrupt(), 0, 'Ctrl-C fails a run of two layers');
is_deeply([ names_of(still_running()) ], [], 'Ctrl-C ends every process of both layers');
like(screen_text(), qr/---- interrupted by SIGINT in tap e2e$/m, 'the output contains the names of both layers');

run_in_terminal('as_root');
wait_until('a script that runs as root waits neither for the terminal nor for input', sub { -e "$checkout/ready" });
isnt(interrupt(), 0, 'Ctrl-C fails a run with a script that runs as root');
is_deeply([ names_of(still_running()) ], [], 'Ctrl-C ends every process of the script that runs as root');
ok(!-e "$checkout/went_on", 'the interrupted script does not run its next command');

done_testing();
