# Tests notifications that no script copies, because of their size: storing, retries, traces, entries in the error log,
# redrives and trimming. The relay reads and writes them outside of scripts, also with a full store and if it is killed.
use strict;
use warnings;

use Clairon::Test qw(program token wait_until of_mark);
use Clairon::Test::Clock;
use Clairon::Test::RawSocket;
use IPC::Run qw(run);
use JSON ();
use POSIX ();
use Test::More;

my ($COLUMNS, $BYTES, $LONG) = (3, 400_000, 1_100_000);
my $pg = Clairon::Test::postgresql('main');
my $columns = join ', ', map { "c$_ text" } 1 .. $COLUMNS;
my $values  = join ', ', ("repeat('x', $BYTES)") x $COLUMNS;
$pg->safe_psql('postgres', "CREATE TABLE large (owner text, $columns);
    SELECT clairon.watch('large', 'USER', 'owner', ack_required => true, retry_limit => 1)");
my $store = Clairon::Test::store();
my $clock = Clairon::Test::Clock->new;
my $relay = $clock->start(sub { Clairon::Test::relay($pg, $store, conf => { 'delivery.ack_timeout' => '1h', 'delivery.backoff_base' => '1h', 'delivery.backoff_cap' => '1h',
    'gate.console' => 'on', 'gate.ping' => '10m', 'gate.slow_age' => '10m', 'gate.slow_bytes' => '100MB', 'store.retention' => '1s' }) });

# Writes the commands that read to a file: the start of each line of MONITOR.
my $reads = Clairon::Test::scratch() . '/reads';
my $monitor = fork // die "could not fork: $!";
if ($monitor == 0)
{
    open my $out, '>', $reads or POSIX::_exit(1);
    $out->autoflush(1);
    my $link = $store->link;
    print {$link} "MONITOR\r\n";
    $link->flush;
    while (my $line = <$link>)
    {
        print {$out} substr($line, 0, 300), "\n" if $line =~ /^\+OK|^\S+ \[[^]]+\] "(?:XRANGE|HMGET|HGET)" /;
        print {$out} 'long ', substr($line, 0, 300), "\n" if length $line > $LONG;
    }
    POSIX::_exit(0);
}
wait_until('commands are monitored', sub { -s $reads });

sub of_large { my ($client) = @_; return grep { $_->{metadata}{source} eq 'large' } $client->notifications }
sub attempts { return map { $_->{routing}{retry}{attempts} } @_ }
sub is_complete { my ($row) = @_; return !grep { length $row->{payload}{after}{"c$_"} != $BYTES } 1 .. $COLUMNS }
sub command
{
    my (@arguments) = @_;
    run [ program(), @arguments, '-c', $relay->{file} ], '>', \my $out, '2>', \my $err;
    return $? == 0 ? $out : "status $?: $err";
}

sub http
{
    my ($method, $path, $body) = @_;
    return Clairon::Test::RawSocket->new($relay)->request($method, $path, Host => 'x', ':body' => $body,
        Authorization => 'Bearer ' . token(sub => 'root', admin => JSON::true));
}

my $client = $relay->client('u1');
my $small = $pg->safe_psql('postgres', q{SELECT clairon.notify('USER', '{u1}', '{"mark": "small"}', ack_required => true)});
$pg->safe_psql('postgres', "INSERT INTO large VALUES ('u1', $values)");
$client->run_until('both arrive', sub { of_large($client) && of_mark($client, 'small') });
my $large = (of_large($client))[0]{metadata}{id};
my @entries;
sub pending_entry { push @entries, $store->execute('HGET', $store->of($large, 'pending'), $large) =~ /^(\S+)/; return $entries[-1] }
pending_entry();
$store->make_due($_, 'u1') for $large, $small;
$client->run_until('both are retried', sub { of_large($client) == 2 && of_mark($client, 'small') == 2 });
is_deeply([ attempts(of_large($client)) ], [ 0, 1 ], 'a retry of a large notification has its number of attempts');
ok(is_complete((of_large($client))[1]), 'a retry of a large notification is complete');
$client->ack($small);
my $trace = JSON::decode_json(command('trace', '--json', $large));
ok(is_complete($trace->{notification}), 'a trace has the notification');
is((grep { $_->{stage} eq 'stored' } @{ $trace->{events} }), 1, 'and its events');
is(http(GET => '/v1/console/user?id=u1')->{status}, 200, 'the console lists the pending notifications of the user');

pending_entry();
$store->make_due($large, 'u1');
wait_until('the large notification is exhausted', sub { $store->error_count == 1 });
my ($error) = $store->errors;
is_deeply([ @$error{qw(id reason attempts data)} ], [ $large, 'exhausted', 1, '' ], 'its entry in the error log does not contain it');
my $listed = JSON::decode_json(command('errors', 'list', '--json', $large));
ok(is_complete($listed->{notification}), 'clairon errors lists it with the notification');
is(command('errors', 'redrive', $large), "redrove 1 entry for 1 user\n", 'clairon errors redrives it');
$client->run_until('it is delivered again', sub { of_large($client) == 3 });
is((attempts(of_large($client)))[2], 0, 'a redrive begins with attempt 0');
is_deeply([ map { @{ $store->execute('KEYS', "*:error_$_*") } } qw(parts owners index) ], [], 'the error log is empty, and charged to nobody');

# An expiration, and a redrive by the console.
$store->execute('ZADD', $store->of($large, 'due'), 1, "$large:");
wait_until('it expires', sub { $store->error_count == 1 });
($error) = $store->errors;
my ($row) = @{ http(GET => '/v1/console/errors')->{json}{errors} };
is_deeply([ @$row{qw(entry reason notification)} ], [ $error->{entry}, 'expired', undef ], 'the console lists it without the notification');
is(http(POST => '/v1/console/redrive', { entry => $error->{entry} })->{json}{users}, 1, 'the console redrives it');
$client->run_until('it is delivered again', sub { of_large($client) == 4 });

# Trimming moves a pending entry that is older than the retention. A deleted one expires at its next retry.
my $entry = pending_entry();
$clock->advance_until(61, 'the entry moves to the end of the stream', sub { pending_entry() ne $entry });    # trimming is done once a minute
$entry = $entries[-1];
my %moved = @{ $store->execute('XRANGE', $store->of($large, 'stream'), $entry, $entry)->[0][1] };
ok(is_complete(JSON::decode_json($moved{data})), 'the moved entry is complete');
my $due = $store->of($large, 'due');
wait_until('the delivery is reported', sub { defined $store->execute('ZSCORE', $due, "$large:u1") });
$store->execute('XDEL', $store->of($large, 'stream'), $entry);
pop @entries;    # a script may look for the deleted entry: it copies nothing
$store->execute('ZADD', $due, 1, "$large:u1");
wait_until('the notification without an entry expires', sub { $store->error_count == 1 });
is(($store->errors)[0]{reason}, 'expired', 'a notification whose large entry was deleted expires');

# A full store rejects a new row, which follows when it has memory again.
$pg->safe_psql('postgres', "INSERT INTO large VALUES ('u2', $values)");
wait_until('the row is stored', sub { $store->pending == 1 });
my ($other) = grep { $_->{data} =~ /"u2"/ } $store->entries;
my $second = $relay->client('u2');
$second->run_until('it is delivered', sub { of_large($second) == 1 });
$store->make_due($other->{id}, 'u2');
$second->run_until('it is retried', sub { of_large($second) == 2 });
$store->execute('CONFIG', 'SET', 'maxmemory', 1);
$pg->safe_psql('postgres', "INSERT INTO large VALUES ('u3', $values)");
$relay->wait_for_log(qr/"could not store a batch" error=.*OOM/);
is($store->pending, 1, 'a full store does not store a large row');
is(scalar(grep { $_->{data} =~ /"u3"/ } $store->entries), 0, 'and has no entry of it');
$store->execute('CONFIG', 'SET', 'maxmemory', 0);
wait_until('the row is stored', sub { $store->pending == 2 });
is(scalar(grep { $_->{data} =~ /"u3"/ } $store->entries), 1, 'with memory again, the row is stored once');

# A relay is killed while it sends a row.
$store->pause;
$pg->safe_psql('postgres', "INSERT INTO large VALUES ('u4', $values)");
wait_until('the relay has received the row', sub { $relay->metric('clairon_feed_unconfirmed_bytes') > 0 });
$relay->kill9;
kill CONT => $store->pid;
$relay->start;
$relay->wait_ready;
wait_until('the row is stored', sub { $store->pending == 3 });
is(scalar(grep { $_->{data} =~ /"u4"/ } $store->entries), 1, 'after a relay was killed while it sent a row, the row is stored once');

kill TERM => $monitor;
waitpid $monitor, 0;
my (%by_script, %by_relay);
my (@long_of_scripts, %long);
for (split /\n/, PostgreSQL::Test::Utils::slurp_file($reads))
{
    if (/^long \S+ \[\d+ (\S+)\] "(\w+)"/)
    {
        push @long_of_scripts, substr $_, 0, 200 if $1 eq 'lua' || $2 =~ /^EVAL/;
        $long{$2}++;
    }
    my ($is_script, $what) = /^\S+ \[\d+ (lua|\S+)\] "(?:XRANGE" "[^"]*:stream" "(\S+)" "\g2"|(?:HMGET|HGET)" "[^"]*:error_parts:.*"data")/ or next;
    ($is_script eq 'lua' ? \%by_script : \%by_relay)->{ $what // 'the error log' }++;
}
note "reads outside of scripts: @{[ %by_relay ]}";
cmp_ok(scalar(keys %by_relay), '>', 2, 'large entries are read outside of scripts');
is_deeply([ grep { $by_script{$_} } 'the error log', @entries ], [], 'no script reads one of them');

note "commands with long arguments: @{[ %long ]}";
ok($long{XADD}, 'large entries are added outside of scripts');
is_deeply(\@long_of_scripts, [], 'no script has or passes a long argument');

done_testing();
