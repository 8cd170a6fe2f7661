# Tests sessions that read a large row from the store, when they resume and from their pending list: no script copies the
# row, and sessions that read it at the same time share one command.
use strict;
use warnings;

BEGIN { $ENV{CLAIRON_TEST_SHARDS} = 1 }    # sessions share the commands of one stream
use Clairon::Test qw(token wait_until wait_confirmed);
use Clairon::Test::Client;
use Clairon::Test::Neighbour;
use Test::More;

my ($SESSIONS, $COLUMNS) = (3, 7);
my $pg      = Clairon::Test::postgresql('main');
my @columns = map { "c$_" } 1 .. $COLUMNS;
my $bodies  = join ', ', map { "$_ text" } @columns;
# Values of a column: nearly the maximum, so that an update has twice 7 MB.
sub bodies { my ($letter) = @_; return join ', ', map { "$_ = repeat('$letter', 1000000)" } @columns }
$pg->safe_psql('postgres', qq{
    CREATE TABLE large (id serial PRIMARY KEY, owner text, small text, $bodies); ALTER TABLE large REPLICA IDENTITY FULL;
    CREATE TABLE small (id serial PRIMARY KEY, body text);
    INSERT INTO large (owner) VALUES ('reader'); UPDATE large SET ${\ bodies('a')};
    SELECT clairon.watch('large', 'ALL', operations => '{update}'); SELECT clairon.watch('small', 'ALL')});
my $store = Clairon::Test::store(options => [ '--slowlog-log-slower-than', 0, '--slowlog-max-len', 100_000 ]);
my %patient = ('gate.ping' => '10m', 'gate.slow_age' => '10m', 'gate.slow_bytes' => '100MB');
my $relay = Clairon::Test::relay($pg, $store, conf => \%patient);

sub add_small { my ($body) = @_; $pg->safe_psql('postgres', "INSERT INTO small (body) VALUES ('$body')"); return }
sub update_large { my ($letter) = @_; $pg->safe_psql('postgres', 'UPDATE large SET ' . bodies($letter)); return }

# Since start_clock(): the store's CPU time in ms, and the number of commands that read only this entry.
my $started;
sub cpu_ms { return 1000 * Clairon::Test::Neighbour::cpu_times($store->pid)->{run} }
sub start_clock { $store->execute('SLOWLOG', 'RESET'); $started = cpu_ms(); return }
sub used
{
    my ($entry) = @_;
    my $cpu = cpu_ms() - $started;
    return ($cpu, scalar grep { "@{ $_->[3] }" =~ /^XRANGE \S+ \Q$entry $entry\E$/ } @{ $store->execute('SLOWLOG', 'GET', 100_000) });
}

# The honest control: the CPU time in ms of the store for a command that reads the entry.
sub read_directly
{
    my ($entry) = @_;
    start_clock();
    $store->execute('XRANGE', $store->shared('stream'), $entry, $entry) for 1 .. 5;
    return (used($entry))[0] / 5;
}

my $first = $relay->client('u0');
add_small('before');
$first->wait_notifications(1);
my $pos = $first->pos;
update_large($_) for qw(b c);
add_small('after');
$first->run_until('all rows are delivered', sub { $first->notifications == 4 });
$first->close;
wait_confirmed($pg);
my ($entry) = map { $_->{entry} } grep { length $_->{data} > 1_900_000 * $COLUMNS } $store->entries;
my $honest = read_directly($entry);

# ---- Sessions that resume. The restarted relay has no rows in memory.
$relay->restart;
my @clients = map { Clairon::Test::Client->new($relay->url('/v1/ws')) } 1 .. $SESSIONS;
start_clock();
$store->pause;    # so that all sessions read at the same time
$clients[ $_ - 1 ]->send({ t => 'connect', r => 1, token => token(sub => "u$_"), pos => $pos }, { t => 'unknown', r => 2 }) for 1 .. $SESSIONS;
$_->wait_for('err') for @clients;
kill CONT => $store->pid;
for my $client (@clients)
{
    $client->run_until('all rows are delivered', sub { $client->notifications >= 3 });
    is_deeply([ map { my $row = $_->{payload}{after}; $row->{body} // substr $row->{c1}, 0, 2 } $client->notifications ], [qw(bb cc after)],
        'the rows are delivered in order');
    is($client->gaps, '', 'without a gap');
}
my ($cpu, $reads) = used($entry);
note sprintf '%.0f ms of CPU, %.0f ms for a direct read; %d reads', $cpu, $honest, $reads;
SKIP:
{
    skip 'the CPU time of KeyDB for a large reply varies', 1 if $ENV{STORE_SERVER} =~ /keydb/;
    cmp_ok($cpu, '<', 2 * $SESSIONS * $honest, 'each session costs at most a direct read of each large row');
}
cmp_ok($reads, '>', 0, 'large rows are read outside of scripts');
cmp_ok($reads, '<', $SESSIONS, 'sessions that read a row at the same time share a command');
$_->close for @clients;

# ---- A session that reads its pending list.
$pg->safe_psql('postgres', q{
    SELECT clairon.unwatch('large'); SELECT clairon.unwatch('small');
    SELECT clairon.watch('large', 'USER', 'owner', operations => '{update}', ack_required => true, name => 'letters')});
$pg->safe_psql('postgres', q{UPDATE large SET small = 'first', } . join ', ', map { "$_ = ''" } @columns);
update_large($_) for qw(d e);
wait_until('the rows are stored', sub { $store->pending == 3 });
wait_confirmed($pg);
$entry = ($store->entries)[-1]{entry};
$honest = read_directly($entry);
$relay->restart;
start_clock();
my $reader = $relay->client('reader');
$reader->run_until('all rows are delivered', sub { $reader->notifications >= 3 });
is_deeply([ map { substr $_->{payload}{after}{c1}, 0, 2 } $reader->notifications ], [ '', 'dd', 'ee' ], 'pending rows are delivered in order');
($cpu, $reads) = used($entry);
note sprintf '%.0f ms of CPU, %.0f ms for a direct read; %d reads', $cpu, $honest, $reads;
SKIP:
{
    skip 'the CPU time of KeyDB for a large reply varies', 1 if $ENV{STORE_SERVER} =~ /keydb/;
    cmp_ok($cpu, '<', 2 * 2 * $honest, 'the session costs little more than a direct read of each large row');
}
is($reads, 1, 'the row is read once');
$reader->ack_received;
$reader->run_until('the acknowledgements are stored', sub { $store->pending == 0 });

done_testing();
