# Tests that nginx and HAProxy route users by the shard in the URL, so that each relay reads only some shards of a
# cluster, and that they route the users of a lost relay to another relay.
use strict;
use warnings;

use Clairon::Test qw(wait_until top token);
use Clairon::Test::Client;
use Clairon::Test::Gateway;
use Mojo::UserAgent;
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id serial PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner')});
my $cluster = Clairon::Test::store_cluster(replicas => 0);
my %users;
for my $user (map { "user$_" } 1 .. 200) { push @{ $users{ $cluster->shard_of($user) } }, $user }
my @shards = sort { $a <=> $b } keys %users;

# The lines that docker/GATEWAYS.md replaces.
my %routing = slurp_file(top() . '/docker/GATEWAYS.md') =~ /replace `([^`]+)` by\n```\n(.*?)^```$/gms;
is(scalar keys %routing, 2, 'the page has the lines of two proxies');

sub check_routes
{
    my ($name, $line) = @_;
    my %conf = ('store.min_replicas' => 0, 'gate.ping' => '1h', 'gate.trusted_proxies' => '127.0.0.1', 'gate.max_per_address' => 1000);
    my @relays = map { Clairon::Test::relay($pg, $cluster, conf => {%conf}) } 1, 2;
    my $proxy = Clairon::Test::Gateway->new($name, \@relays, $line => $routing{$line});
    my $followed = sub { my $sum = 0; $sum += $_->metric('clairon_store_followed_shards') for @relays; return $sum };

    my %clients;
    my $connect = sub {
        my ($user, $query) = @_;
        $clients{$user} = wait_until("$user connects with '$query'", sub {
            my $client = eval { Clairon::Test::Client->new("$proxy->{url}/v1/ws$query") } or return;
            return eval { $client->connect(token(sub => $user))->{t} eq 'connected' } ? $client : undef;
        });
    };
    my $check_rows = sub {
        my ($when) = @_;
        my %before = map { $_ => scalar $clients{$_}->notifications } keys %clients;
        $pg->safe_psql('postgres', q{INSERT INTO t (owner) SELECT 'user' || i FROM generate_series(1, 200) i});
        for my $user (sort keys %clients)
        {
            $clients{$user}->wait_notifications($before{$user} + 1);
            my @owners = map { $_->{payload}{after}{owner} } $clients{$user}->notifications;
            is_deeply([ @owners[ $before{$user} .. $#owners ] ], [$user], "$user receives its row $when");
        }
    };

    for my $shard (@shards) { $connect->($_, "?shard=$shard") for @{ $users{$shard} }[ 0, 1 ] }
    is($followed->(), @relays + @shards, 'each shard of a user is read by one relay');
    cmp_ok($_->metric('clairon_store_followed_shards'), '>', 1, 'each relay reads some shards') for @relays;

    is(Mojo::UserAgent->new->get("$proxy->{url}/metrics")->result->code, 404, 'internal paths are not forwarded');

    my ($one, $two) = @shards;
    $connect->($users{$one}[2], "?shard=$two");
    $connect->($users{$two}[2], '');
    cmp_ok($followed->(), '<=', @relays + @shards + 2,
        'a wrong or missing shard in the URL makes relays read at most two additional shards');
    $check_rows->('through the proxy');

    $relays[0]->kill9;
    for my $shard (@shards) { $connect->($_, "?shard=$shard") for @{ $users{$shard} }[ 0, 1 ] }
    $connect->($users{$one}[2], "?shard=$two");
    $connect->($users{$two}[2], '');
    $check_rows->('after the loss of a relay');
    $_->stop for $proxy, $relays[1];
    return;
}

for (['nginx', 'least_conn;'], ['haproxy', 'balance leastconn'])
{
    my ($name, $line) = @$_;
    subtest $name => sub {
        plan skip_all => "$name is not installed" if !Clairon::Test::Gateway::is_installed($name);
        check_routes($name, $line);
    };
}

done_testing();
