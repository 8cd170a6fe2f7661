# Tests that the doctor checks the running relay and its origins, reports causes, and distinguishes warnings from
# failures.
use strict;
use warnings;

use Clairon::Test qw(wait_until free_port scratch);
use Clairon::Test::Doctor qw(doctor failed_checks finds warns repaired);
use IO::Socket::INET;
use JSON ();
use Test::More;

my $pg = Clairon::Test::postgresql('main', conf => "max_slot_wal_keep_size = 1GB\n");
my $store = Clairon::Test::store();
$store->execute('CONFIG', 'SET', 'maxmemory', '1gb');
sub sql { return $pg->safe_psql('postgres', $_[0]) }
sql(q{CREATE TABLE t (id int PRIMARY KEY, owner text); ALTER TABLE t REPLICA IDENTITY FULL;
    SELECT clairon.watch('t', 'USER', 'owner'); SELECT clairon.watch('t', 'USER', 'owner', name => 'second')});
my $relay = $Clairon::Test::Doctor::relay = Clairon::Test::relay($pg, $store,
    conf => { 'gate.max_connections' => 100, 'gate.origins' => 'https://app.example' });
chmod 0600, $relay->{file};

# A healthy configuration.
my ($code, $out) = doctor();
is($code, 0, 'the doctor exits with 0 for a healthy configuration');
like($out, qr/^ok +gate +relay: ready on 127\.0\.0\.1:\d+, feed streaming, store up$/m, 'the running relay is checked');
like($out, qr{^ok +gate +gate\.origins: https://app\.example$}m, 'the origins of the running relay are checked');
like($out, qr/^all checks passed\n\z/m, 'a healthy configuration reports no problems');
my %times;
$times{$_}++ for split /\n/, $out;
is_deeply([ grep { $times{$_} > 1 } keys %times ], [], 'no line is printed twice, even with two rules on a table');
unlike($out, qr/of 0 MB|\b1 (?:rules|days|replicas|fsyncs)\b/, 'no line has a limit of 0 or a wrong plural');
like($out, qr/^ok +store +memory: \d+ MB used of 1024 MB$/m, 'the memory of the store has a limit');
unlike($out, qr/\e/, 'output to a pipe has no colors');

# A warning causes exit status 0 and is included in the summary, --quiet output and JSON.
sub slot_limit { my ($value) = @_; sql("ALTER SYSTEM SET max_slot_wal_keep_size = '$value'"); $pg->reload;
    wait_until('the setting is in effect', sub { sql('SHOW max_slot_wal_keep_size') eq $value }); return }
slot_limit('-1');
warns('WAL without a limit', 'postgresql: max_slot_wal_keep_size', qr/unlimited/, qr/ALTER SYSTEM SET max_slot_wal_keep_size/);
slot_limit('1GB');
$store->execute('CONFIG', 'SET', 'maxmemory', 0);
warns('a store without a memory limit', 'store: memory', qr/^\d+ MB used, no limit$/, qr/CONFIG SET maxmemory/);
$store->execute('CONFIG', 'SET', 'maxmemory', '1gb');
($code, $out) = doctor('--quiet', '--gate.origins=*');
is($code, 0, 'the doctor exits with 0 if it reports only warnings');
like($out, qr{\AWARN +gate +gate\.origins: \*: .*\n +hint: Name the origins.*\nno check failed, 1 warning\n\z}, '--quiet prints warnings and the summary');
warns('origins of all sites', 'gate: gate.origins', qr/^\*: /, qr/Name the origins/, '--gate.origins=*');

# The doctor reports tokens with an invalid signature, which sign out all users after a change of keys.
is(($relay->get('/v1/poll', Authorization => 'Bearer ' . Clairon::Test::token(sub => 'u1', secret => 'x' x 32)))[0], 401, 'a token of another key is rejected');
warns('a token of another key', 'gate: tokens', qr/^1 with an invalid signature, the last one \d+ s ago$/, qr/another key: see ClaironTokensRejected/);
is(($relay->get('/v1/poll?wait=0', Authorization => 'Bearer ' . Clairon::Test::token(sub => 'u1', _claim_names => { groups => 'src1' })))[0], 204, 'a token without its groups is accepted');
warns('groups that a provider left out', 'gate: groups', qr/^tokens whose provider left out groups: 1$/, qr/emit only the groups/);
$relay->restart;

# The running relay accepts other origins than the configuration file.
finds('an origin added after its start', 'gate: gate.origins', qr{rejects origin https://new\.example$}, qr/restart/,
    '--gate.origins=https://app.example,https://new.example');

# The doctor finds no listener, another program, or a socket without a response.
my $port = free_port();
warns('no relay', 'gate: relay', qr/^no relay found at 127\.0\.0\.1:$port: Connection refused$/, qr/systemctl start/, "--gate.listen=127.0.0.1:$port");
warns('no unix socket', 'gate: relay', qr/^no relay found at unix:.*No such file/, qr/systemctl start/, '--gate.listen=unix:' . scratch() . '/none');
my $other = IO::Socket::INET->new(Listen => 5, LocalAddr => '127.0.0.1') or die "could not listen: $!";
for my $case ([ "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", 0 ], [ "HTTP/1.1 200 OK\r\n\r\n[]", 0 ], [ "SSH-2.0-x\r\n", 1 ])
{
    my ($reply, $is_warning) = @$case;
    my $pid = fork // die "could not fork: $!";
    if ($pid == 0)
    {
        for (1 .. 2) { my $link = $other->accept or last; sysread $link, my $request, 4096; syswrite $link, $reply; close $link }
        POSIX::_exit(0);
    }
    my @expected = ('gate: relay', ($is_warning ? qr/reply is not HTTP/ : qr/is not a relay/), ($is_warning ? qr/./ : qr/Stop the program/),
        '--gate.listen=127.0.0.1:' . $other->sockport);
    $is_warning ? warns('another program', @expected) : finds('another program', @expected);
    kill KILL => $pid;
    waitpid $pid, 0;
}

# For an error of PostgreSQL, the doctor prints the cause and no SQL.
sql('CREATE DATABASE bare');
my $found = failed_checks('--feed.conninfo=' . $pg->connstr('bare') . ' user=relay');
is($found->{'postgresql: extension'}{detail}, 'the extension clairon is not installed in this database', 'a missing extension is reported as the cause of other errors');
sql('REVOKE clairon_relay FROM relay');
$found = failed_checks();
is($found->{'postgresql: extension'}{detail}, q{the relay's role is not a member of clairon_relay}, 'a missing privilege is reported as the cause of other errors');
unlike(join(' ', map { $_->{detail} } values %$found), qr/ERROR:|LINE \d/, 'PostgreSQL errors are not printed verbatim');
sql('GRANT clairon_relay TO relay');
repaired('the granted role passes all checks');

# The store stops: the relay is not ready, and the doctor reports the cause.
$store->stop;
wait_until('the relay has lost its store connection', sub { ($relay->get('/readyz'))[0] == 503 });
finds('a relay without its store', 'gate: relay', qr/^not ready on \S+, feed \w+, store down$/, qr/no store connection/);
$store->start;
wait_until('the relay is ready again', sub { ($relay->get('/readyz'))[0] == 200 });
repaired('the running store passes all checks');

# New error log entries cause at most one log line every 10 s, with a count.
my @ids = split /\n/, sql(q{SELECT clairon.notify('USER', '{u1}', '{}', ack_required => true, ttl => '1 hour') FROM generate_series(1, 2500)});
wait_until('all notifications are stored', sub { $store->sum('HLEN', 'pending') == 2500 });
$store->expire(@ids[ 0 .. 1199 ]);
$store->expire(@ids[ 1200 .. 2499 ]);
wait_until('all notifications are in the error log', sub { $store->error_count == 2500 });
is($relay->stop, 0, 'the relay exits with status 0');
my @lines = $relay->log_text =~ /(time=\S+ msg="moved unacknowledged notifications to the error log" .*)/g;
my $sum = 0;
$sum += $_ for "@lines" =~ /(?:exhausted|expired)=(\d+)/g;
is($sum, 2500, 'the log counts all entries of the error log');
my @times = map { /T(\d+):(\d+):([\d.]+)/ ? $1 * 3600 + $2 * 60 + $3 : die "no time in: $_\n" } @lines;
is(scalar(grep { ($times[$_] - $times[ $_ - 1 ]) % 86_400 < 9 } 1 .. $#times - 1), 0,
    'the rejections are logged in at most one line every 10 s, and the remaining rejections in one line at the exit') or diag "@lines";
unlike("@lines", qr/exhausted=0 expired=0/, 'no log line reports zero rejections');

done_testing();
