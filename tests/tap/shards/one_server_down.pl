# Tests four shards on two servers: each row is stored and delivered once, even when a server is killed or emptied.
use strict;
use warnings;

use Clairon::Test qw(wait_until wait_confirmed);
use JSON ();
use Test::More;

my $SHARDS = 4;
my $pg     = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE one (id int PRIMARY KEY, owner text);
    CREATE TABLE many (id int PRIMARY KEY, team text);
    INSERT INTO clairon.member VALUES ('TEAM', 't1', 'u1'), ('TEAM', 't1', 'u2');
    SELECT clairon.watch('one', 'USER', 'owner', ack_required => true, retry_limit => 50);
    SELECT clairon.watch('many', 'TEAM', 'team')});
my @stores = map { Clairon::Test::store() } 1, 2;
my %conf   = ('store.shards' => $SHARDS, 'store.url' => join(',', map { $_->url } @stores));
my ($first, $second) = map { Clairon::Test::relay($pg, undef, conf => {%conf}) } 1, 2;

my $last = 0;
sub statements
{
    my ($transactions) = @_;
    my $text = '';
    for (1 .. $transactions)
    {
        $text .= sprintf "BEGIN; INSERT INTO one SELECT i, 'u' || i %% 5 FROM generate_series(%d, %d) i;"
          . "INSERT INTO many VALUES (%d, 't1'); COMMIT;\n", $last + 1, $last + 10, $last + 10;
        $last += 10;
    }
    return $text;
}
sub insert { return $pg->safe_psql('postgres', statements(@_)) }
sub rows { return $last + $last / 10 }
sub execute { my ($shard, @arguments) = @_; return $stores[ $shard % 2 ]->execute(@arguments) }
sub stored { my $sum = 0; $sum += execute($_, 'XLEN', "clairon:{$_}:stream") for 0 .. $SHARDS - 1; return $sum }
sub pending { my $sum = 0; $sum += $stores[ $_ % 2 ]->pending("clairon:{$_}:stream") for 0 .. $SHARDS - 1; return $sum }

sub check_complete
{
    my ($when) = @_;
    my (%found, @unordered);
    for my $k (0 .. $SHARDS - 1)
    {
        my $before = '';
        for my $entry ($stores[ $k % 2 ]->entries("clairon:{$k}:stream"))
        {
            next if exists $entry->{only};
            my ($table) = $entry->{data} =~ /"source":"(\w+)"/;
            my ($id)    = $entry->{data} =~ /"after":\{"id":(\d+)/;
            $found{"$table $id"}++;
            my $position = substr $entry->{route}, 8, 16;
            push @unordered, $entry->{entry} if $position le $before;
            $before = $position;
        }
    }
    my %wanted = map { $_ => 1 } (map { "one $_" } 1 .. $last), map { 'many ' . 10 * $_ } 1 .. $last / 10;
    is_deeply(\%found, \%wanted, "$when: each row is stored once, over both servers");
    is_deeply(\@unordered, [], "$when: each shard is in commit order");
    return;
}

my %client = map { $_ => $second->client($_) } map { "u$_" } 0 .. 4;
insert(4);
wait_until('all rows are stored', sub { stored() >= rows() });
check_complete('at first');
is_deeply([ map { my $store = $_; join ' ', sort grep { !/:errors/ } map { /(\{\d\})/ } grep { /:stream$/ } @{ $store->execute('KEYS', '*') } } @stores ],
    [ '{0} {2}', '{1} {3}' ], 'each server has two shards');
sub received { my ($client) = @_; my %ids = map { $_->{metadata}{id} => 1 } $client->notifications; return scalar keys %ids }
sub wait_received
{
    my ($user, $wanted) = @_;
    $client{$user}->run_until("$wanted notifications for $user", sub { received($client{$user}) >= $wanted });
    return;
}
sub wanted { my ($user) = @_; return $last / 5 + ($user =~ /u[12]/ ? $last / 10 : 0) }
wait_received($_, wanted($_)) for keys %client;
$client{$_}->ack(map { $_->{metadata}{id} } grep { $_->{metadata}{source} eq 'one' } $client{$_}->notifications) for keys %client;
wait_until('all acks are stored', sub { pending() == 0 });
pass('each user receives and acknowledges all notifications');

# Each server is killed under load and restarted.
my $script = Clairon::Test::scratch() . '/rows.sql';
PostgreSQL::Test::Utils::append_to_file($script, statements(150));
my $writer = Clairon::Test::writer($pg, $script);
for my $part (1 .. 4)
{
    my $store = $stores[ $part % 2 ];
    wait_until('more rows are stored', sub { stored() >= 300 * $part });
    $store->kill9;
    wait_until('the relays have lost the store', sub { ($second->get('/readyz'))[0] == 503 }) if $part > 2;
    $store->start;
    $_->wait_ready for $first, $second;
}
$first->kill9;
$first->start;
$first->wait_ready;
$writer->finish;
wait_until('all rows are stored', sub { stored() >= rows() });
check_complete('after kills of both servers and a relay');
# The in-flight window is 64: the rest is delivered as acks arrive.
for my $user (sort keys %client)
{
    my %acked;
    $client{$user}->run_until("all rows for $user", sub {
        my @new = grep { !$acked{$_}++ } map { $_->{metadata}{id} } grep { $_->{metadata}{source} eq 'one' } $client{$user}->notifications;
        $client{$user}->ack(@new) if @new;
        return received($client{$user}) >= wanted($user);
    });
    is(received($client{$user}), wanted($user), "$user receives all notifications");
}
wait_until('all acks are stored', sub { pending() == 0 });

# Each server has an error log: commands and console handle both.
sub clairon { return $first->run(@_) }
sub make_errors
{
    my %lost = map { $_ => $pg->safe_psql('postgres', "SELECT clairon.notify('USER', '{$_}', '{}', ack_required => true, ttl => '1 hour')") } map { "u$_" } 0 .. 4;
    for my $id (values %lost)
    {
        my ($shard) = wait_until('it is stored', sub { my @with = grep { execute($_, 'ZSCORE', "clairon:{$_}:due", "$id:") } 0 .. $SHARDS - 1; $with[0] });
        execute($shard, 'ZADD', "clairon:{$shard}:due", 1, "$id:");
    }
    wait_until('all are in the error log', sub { my $sum = 0; $sum += $_->execute('XLEN', 'clairon:errors') for @stores; $sum == 5 });
    return %lost;
}
my %lost = make_errors();
ok((grep { $_->execute('XLEN', 'clairon:errors') > 0 } @stores) == 2, 'each server has an error log');
is_deeply([ grep { ($_->{entry} =~ /-(\d+)$/)[0] % 16 != $_->{shard} } map { $_->entries('clairon:errors') } @stores ], [], 'their entry ids are distinct');
wait_until('a metric counts both', sub { ($first->metric('clairon_errors_entries') // 0) == 5 });
my ($code, $out) = clairon('errors', 'list', '--json');
is_deeply([ sort map { JSON::decode_json($_)->{id} } split /\n/, $out ], [ sort values %lost ], 'the error logs are listed as one');
($code, $out) = clairon('errors', 'redrive', '--user', 'u1');
is($out, "redrove 1 entry for 1 user\n", 'redrive reports the number of entries and users');
($code, $out) = clairon('errors', 'drop', '--all');
is($out, "dropped 4 entries\n", 'drop reports the number of entries');
($code, $out) = clairon('trace', $lost{u1});
like($out, qr/stored.*errored.*expired.*retried|redriven/s, 'a trace is found on its server');
my $doctor = JSON::decode_json((clairon('doctor', '--json'))[1]);
is((grep { $_->{check} eq 'connection' && $_->{area} eq 'store' && $_->{ok} } @{ $doctor->{checks} }), 2, 'the doctor checks both servers');

# Commands name an unavailable server.
$stores[1]->stop;
($code, undef, my $away) = clairon('trace', $lost{u1});
is($code, 1, 'a command fails with one server down');
like($away, qr/could not connect to the store \(\Q$stores[1]{socket}\E\): /, 'the error names the server');
$stores[1]->start;
$_->wait_ready for $first, $second;

# A server is emptied after its rows were confirmed.
wait_confirmed($pg);
$stores[1]->execute('FLUSHALL');
is($client{u3}->wait_for('gap')->{why}, 'epoch', 'an emptied server causes a gap for all');
my $stored_before = stored();
insert(2);
wait_until('later rows are stored', sub { stored() >= $stored_before + 22 });
is(stored(), $stored_before + 22, 'each row is stored once after the gap');

# The order of the servers determines the placement.
$_->stop for $first, $second;
$first->configure('store.url' => join ',', map { $_->url } reverse @stores);
my $mark = $first->log_mark;
$first->start;
$first->wait_for_log(qr/SHARDS shard \d of clairon is not on this server, but shard \d is: list the servers/, from => $mark);
is(($first->get('/readyz'))[0], 503, 'servers in another order are rejected');
$first->stop;

# Another number of shards, or only one of the two servers.
for my $wrong ({ %conf, 'store.shards' => 8 }, { %conf, 'store.shards' => 1, 'store.url' => $stores[1]->url })
{
    my $number = $wrong->{'store.shards'};
    my @before = map { scalar @{ $_->execute('KEYS', '*') } } @stores;
    $first->configure(%$wrong);
    $mark = $first->log_mark;
    $first->start;
    $first->wait_for_log(qr/SHARDS clairon was created with \[store\] shards = 4, not $number/, from => $mark);
    $first->stop;
    is_deeply([ map { scalar @{ $_->execute('KEYS', '*') } } @stores ], \@before, "$number shards are rejected, and no key is left on either server");
    isnt((clairon('errors', 'list'))[0], 0, "commands reject $number shards");
}
$first->configure(%conf, 'store.shards' => 1);
($code, undef, my $err) = clairon('relay', '--check');
is($code, 2, 'more servers than shards are rejected');
like($err, qr/names more servers than \[store\] shards/, 'more servers than shards are rejected with the reason');
$first->configure(%conf);
$first->start;
$first->wait_ready;
pass('with the original servers the relay continues');

# From two servers to four: each new one is a copy of an old one.
%lost = make_errors();
wait_confirmed($pg);
my $reader = $first->client('u1');
my $position = $reader->pos;
$first->stop;
insert(1);
for my $store (@stores[ 0, 1 ])
{
    $store->stop;
    push @stores, Clairon::Test::Store->new(folder => Clairon::Test::new_folder('store'));
    system('cp', '-a', "$store->{folder}/.", $stores[-1]{folder}) == 0 or die 'could not copy the store';
    Clairon::Test::remember($stores[-1]);
    $_->start for $store, $stores[-1];
}
$stored_before = stored();
$first->configure('store.url' => join ',', map { $_->url } @stores);
$first->start;
$first->wait_ready;
$reader = $first->client('u1', pos => $position);
ok($reader->wait_for('connected')->{resumed}, 'cursors are valid on twice as many servers');
insert(1);
sub stored_on_four { my $sum = 0; $sum += $stores[$_]->execute('XLEN', "clairon:{$_}:stream") for 0 .. $SHARDS - 1; return $sum }
wait_until('later rows are stored', sub { stored_on_four() >= $stored_before + 22 });
is(stored_on_four(), $stored_before + 22, 'each row is stored once, on its new server');
sub new_rows { my %ids = map { $_ => 1 } grep { $_ > $last - 20 } map { $_->{payload}{after}{id} // 0 } $reader->notifications; return sort { $a <=> $b } keys %ids }
my @wanted = sort { $a <=> $b } map { ($last - 20 + $_, $last - 10 + $_) } 1, 6, 10;
$reader->run_until('all missed rows', sub { my @found = new_rows(); @found >= @wanted });
is_deeply([ new_rows() ], \@wanted, 'the rows are delivered from the new servers');

($code, $out) = clairon('errors', 'list', '--json');
is_deeply([ sort map { JSON::decode_json($_)->{id} } split /\n/, $out ], [ sort values %lost ], 'each entry of the error logs is listed once');
($code, $out) = clairon('errors', 'redrive', '--all');
is($out, "redrove 5 entries for 5 users\n", 'redrive reports the entries of all servers');
($code, $out) = clairon('errors', 'list', '--json');
is($out, '', 'the error log is empty after the redrive');

done_testing();
