# Tests that each log line is one event in logfmt or JSON without secrets, during normal operation and faults.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::RawSocket;
use Fcntl qw(O_NONBLOCK O_RDWR);
use JSON ();
use POSIX ();
use PostgreSQL::Test::Utils qw(run_log slurp_file);
use Test::More;

my $pg = Clairon::Test::postgresql('main');

# Each function returns the error of a line, or undef if the line is valid.
my %fault_of = (
    logfmt => sub {
        $_[0] =~ /^component=(?:[\w.:\/-]+|"(?:[^"\\]|\\.)+") level=(?:error|warn|info|debug) time=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z msg="(?:[^"\\]|\\.)+"(?: [a-z_]+=(?:"(?:[^"\\]|\\.)*"|[\w.-]+))*$/a
          ? undef : 'form' },
    json => sub {
        my $event = eval { JSON->new->utf8->decode($_[0]) } or return 'no JSON';
        return 'keys' if grep { !defined $event->{$_} } qw(component level time msg) or grep { ref && !JSON::is_bool($_) } values %$event;
        return $_[0] =~ /^\{"component":"/ ? undef : 'component is not first' });

for my $format (sort keys %fault_of)
{
    my $store = Clairon::Test::store();
    my $relay = Clairon::Test::relay($pg, $store, conf => {
        'feed.slot' => "of_$format", 'relay.log_format' => $format, 'gate.max_frame_bytes' => '1kB', 'gate.workers' => 2 });
    my $secret = token(sub => "u \"1\" \\");
    my $user   = $relay->client('', token => $secret);
    $pg->safe_psql('postgres', q{SELECT clairon.notify('ALL', NULL, '{"mark": "not-for-logs"}')});
    $user->run_until('the notification arrives', sub { $user->notifications == 1 });
    $user->send_text('no JSON');
    $relay->get('/v1/poll', Authorization => "Bearer $secret.x");
    $relay->get("/v1/ws?ticket=x%0aforged", Authorization => "x\ty");
    $store->restart;
    wait_until('the store is ready', sub { ($relay->get('/readyz'))[0] == 200 });
    my $mark = $relay->log_mark;
    wait_until('the feed is terminated', sub { $pg->safe_psql('postgres',
        "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = 'of_$format' AND active") });
    $relay->wait_for_log(qr/streaming from slot/, from => $mark);
    kill HUP => $relay->{pid};
    $relay->wait_for_log(qr/auth key/);
    $relay->stop;

    my $log = slurp_file($relay->{log});
    my @lines = split /\n/, $log, -1;
    is(pop @lines, '', "$format: the last line is complete");
    cmp_ok(scalar(@lines), '>', 15, "$format: the log contains lines");
    is_deeply([ map { my $fault = $fault_of{$format}->($_); $fault ? "$fault: $_" : () } @lines ], [], "$format: each line is one event");
    my @secrets = ($Clairon::Test::SECRET, $secret, 'not-for-logs');
    is_deeply([ grep { index($log, $_) >= 0 } @secrets ], [], "$format: the log contains no secrets and no bodies");
}

# The process that reads the log stops, and resumes later.
my $fifo = Clairon::Test::scratch() . '/log';
POSIX::mkfifo($fifo, 0600) or die "no FIFO: $!";
sysopen my $reader, $fifo, O_RDWR | O_NONBLOCK or die "could not open the FIFO: $!";
sub fill { 1 while syswrite $reader, 'x' x 4096; return }
sub empty { my $text = ''; 1 while sysread $reader, $text, 65536, length $text; return $text }

for my $workers (1, 2)
{
    my $relay = Clairon::Test::relay(undef, Clairon::Test::store(), roles => 'gate', start => 0,
        conf => { 'gate.workers' => $workers, 'relay.log_level' => 'info' });
    my $wrapper = "$relay->{folder}/wrapper";
    $relay->write_file($wrapper, "#!/bin/sh\nexec '$relay->{program}' \"\$@\" 2>'$fifo'\n");
    chmod 0755, $wrapper;
    $relay->{program} = $wrapper;
    $relay->start;
    $relay->wait_ready;
    fill();
    wait_until('lines are lost', sub {
        kill HUP => $relay->pid;
        my ($status) = $relay->get('/healthz');
        die "/healthz: $status" if $status != 200;
        return $relay->metric('clairon_log_lines_lost_total') >= 10;
    });
    pass("$workers workers: the relay serves while the log is not read, and counts lost lines");
    empty();
    my $text = '';
    my $loss = qr/^component=log level=warn time=\S+ msg="log lines lost: .*" count=[1-9]\d*\n(?=component=)/m;
    wait_until('the loss is logged', sub { kill HUP => $relay->pid; ($text .= empty()) =~ $loss });
    pass('the log contains the number of lost lines');
    fill();
    is($relay->stop, 0, 'SIGTERM ends the workers while the log is not read');
    empty();
}

# Every command has a usage message.
for my $command ([], map { [$_] } qw(relay doctor token errors trace))
{
    my ($out, $err) = ('', '');
    ok(run_log([ Clairon::Test::program(), @$command, '--help' ], '>', \$out, '2>', \$err), "clairon @$command --help exits with 0");
    like($out, qr/^Usage: clairon \Q@$command\E/, "clairon @$command --help prints the usage");
}

done_testing();
