# Tests that several workers share one port, survive the death of other workers, and stop together.
use strict;
use warnings;

use Clairon::Test qw(wait_until children is_running token);
use Clairon::Test::RawSocket;
use Clairon::Test::SecureSocket;
use POSIX ();
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'ALL')});
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store, conf => { 'gate.workers' => 3 });

is(scalar children($relay->pid), 3, 'the relay has one process per worker, and the supervisor');
my @clients = map { $relay->client("u$_") } 1 .. 24;
is($relay->metric('clairon_gate_connections'), 24, 'any worker reports the metrics of all workers');

$pg->safe_psql('postgres', q{INSERT INTO t SELECT i, 'x' FROM generate_series(1, 50) i});
$_->wait_notifications(50) for @clients;
pass('the clients of all workers receive all notifications');
is(scalar $store->entries, 50, 'the notification is stored once');

# The first worker runs the feed.
my ($turns, $now) = (0, 0);
wait_until('loop iterations are counted', sub { ($turns = $relay->metric('clairon_loop_turns_total')) > 300 });
my @before = children($relay->pid);
kill KILL => $_ for @before;
wait_until('new workers have started',
    sub { my %old = map { $_ => 1 } @before; 3 == grep { !$old{$_} } children($relay->pid) });
$relay->wait_for_log(qr/worker was killed, starting another" pid=\d+ signal=9/);
my $late = $relay->client('late');
wait_until('the new workers report metrics', sub { ($now = $relay->metric('clairon_loop_turns_total')) != $turns });
cmp_ok($now, '>', $turns, 'counters include workers that ended');
$pg->safe_psql('postgres', q{INSERT INTO t SELECT i, 'x' FROM generate_series(51, 60) i});
$late->wait_notifications(10);
is(scalar $store->entries, 60, 'the new workers store and deliver notifications');
is($relay->metric('clairon_gate_connections'), 1, 'connections of ended workers are not counted');
my $reconnected = $relay->client('u1', pos => $clients[0]->pos);
$reconnected->wait_notifications(10);
pass('a client that reconnects receives missed notifications');

my @last = children($relay->pid);
is($relay->stop, 0, 'SIGTERM ends all workers');
is($reconnected->wait_closed, 4201, 'the clients of all workers receive a bye');
is_deeply([ grep { is_running($_) } @last ], [], 'no worker remains');

$relay->start;
wait_until('the relay starts again', sub { 3 == children($relay->pid) });
my @workers = children($relay->pid);
$relay->kill9;
wait_until('workers exit when their supervisor is killed',
    sub { !grep { is_running($_) } @workers });
pass('the port is free');

# The relay is started by a parent that ignores SIGCHLD, with a log pipe without a reader, or with closed standard file
# descriptors.
sub started_by
{
    my ($what, $words) = @_;
    my $wrapper = "$relay->{folder}/wrapper";
    $relay->write_file($wrapper, sprintf "#!%s\n%s\nexec '%s', \@ARGV;\n", $^X, $words, $relay->{program});
    chmod 0755, $wrapper;
    local $relay->{program} = $wrapper;
    $relay->start;
    $relay->wait_ready;
    my ($first) = children($relay->pid);
    kill KILL => $first;
    wait_until('a new worker has started', sub { my @now = children($relay->pid); @now == 3 && !grep { $_ == $first } @now });
    my @files = map { readlink "/proc/@{[ $relay->pid ]}/fd/$_" } 0 .. 2;
    is($relay->stop, 0, "started $what: ended workers are replaced");
    return @files;
}

started_by('with SIGCHLD ignored', q{$SIG{CHLD} = 'IGNORE';});
started_by('with a log pipe without a reader', q{$SIG{PIPE} = 'DEFAULT'; pipe my $in, my $out; open STDERR, '>&', $out; close $in;});
is_deeply([ started_by('without standard files', 'close $_ for *STDIN, *STDOUT, *STDERR;') ], [ ('/dev/null') x 3 ],
    'no socket has the number of a closed standard file descriptor');

# A worker is killed while a certificate is being replaced.
my ($cert, $key) = Clairon::Test::SecureSocket::certificate();
rename $key, "$key.other" or die $!;
Clairon::Test::SecureSocket::certificate();
$relay->configure('gate.tls_cert' => $cert, 'gate.tls_key' => $key);
my $mark = $relay->log_mark;
$relay->start;
$relay->wait_for_log(qr/(?:msg="started" pid=\d+.*){3}/s, from => $mark);
rename $key, "$key.away" or die $!;
my ($killed, @rest) = children($relay->pid);
kill KILL => $killed;
$relay->wait_for_log(qr/failed to start, starting another.*failed to start, starting another/s, from => $mark);
is_deeply([ grep { is_running($_) } @rest ], \@rest, 'the other workers run, although no new worker can start');
rename "$key.away", $key or die $!;
$relay->wait_for_log(qr/(?:msg="started" pid=\d+.*){4}/s, from => $mark);
pass('a worker starts once the certificate is valid');
$relay->stop;
# The key does not match the certificate, which is not checked before a worker starts.
$relay->configure('gate.tls_key' => "$key.other");
$mark = $relay->log_mark;
$relay->start;
is($relay->wait_end >> 8, 1, 'startup fails if a worker cannot start');
like($relay->log_text($mark), qr/worker failed to start, stopping all/, 'the failed start of a worker is logged');

# A terminal or a simple service manager signals the whole process group: workers receive the signal twice, once from
# their supervisor, and still drain.
$relay->configure('gate.tls_cert' => undef, 'gate.tls_key' => undef, 'gate.drain' => '10m');
for my $signal (qw(TERM INT))
{
    $relay->start;
    $relay->wait_ready;
    my $poll = Clairon::Test::RawSocket->user($relay, 'u1');
    $mark = $relay->log_mark;
    kill $signal => -$relay->pid;
    $relay->wait_for_log(qr/(?:signal received, draining.*){3}/s, from => $mark);
    is($poll->read_to_end->{code}, 4201, "SIG$signal for the whole group: a client receives a bye");
    is($relay->wait_end, 0, 'the relay exits with status 0');
    unlike($relay->log_text($mark), qr/stopping immediately|[1-9]\d* connections left/, 'the relay exits after all clients received a bye');
}
# A second signal ends the drain.
$relay->start;
$relay->wait_ready;
my @connections = map { Clairon::Test::RawSocket->user($relay, "u$_") } 1 .. 6;
$mark = $relay->log_mark;
kill TERM => $relay->pid;
$relay->wait_for_log(qr/(?:signal received, draining.*){3}/s, from => $mark);
kill INT => $relay->pid;
is($relay->wait_end, 0, 'a second signal ends the relay');
like($relay->log_text($mark), qr/second signal received, stopping immediately/, 'the second signal ends the relay immediately');

# The supervisor is killed during a POST /v1/realtime, before it is notified: the process that adopts the workers must
# not receive a signal. In this test, the test process adopts the workers by prctl(PR_SET_CHILD_SUBREAPER).
SKIP: {
    my $prctl = { x86_64 => 157, aarch64 => 167 }->{ (POSIX::uname())[4] };
    skip 'this machine does not permit adopting processes', 1 unless $prctl && syscall($prctl, 36, 1, 0, 0, 0) == 0;
    my $signals = 0;
    local @SIG{qw(USR1 USR2)} = (sub { $signals++ }) x 2;
    $relay->configure('gate.drain' => '20s');
    $relay->start;
    $relay->wait_ready;
    my $switch = Clairon::Test::RawSocket->new($relay);
    $switch->write("POST /v1/realtime HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "
          . token(sub => 'me', admin => \1) . "\r\nContent-Length: 12\r\n\r\n{\"on\":");
    my @adopted = wait_until('all processes run', sub { my @all = children($relay->pid); @all == 3 ? \@all : undef })->@*;
    $mark = $relay->log_mark;
    $relay->kill9;
    $relay->wait_for_log(qr/(?:signal received, draining" signal=15.*){3}/s, from => $mark);
    $switch->write('false}');
    $relay->wait_for_log(qr{component=audit.* act="realtime" object="off"}, from => $mark);
    waitpid $_, 0 for @adopted;
    is($signals, 0, 'the adopting process receives no signal');
}

done_testing();
