# Tests that nginx and HAProxy route users by the shard in the URL, so that each relay reads only some shards of a
# cluster, and that they route the users of a lost relay to another relay.
use strict;
use warnings;

use Clairon::Test qw(wait_until scratch free_port top token);
use Clairon::Test::Client;
use Mojo::UserAgent;
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;

package Proxy
{
    use parent -norequire, 'Clairon::Test::Process';
    sub command { return @{ $_[0]{command} } }
}

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id serial PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner')});
my $cluster = Clairon::Test::store_cluster(replicas => 0);
my %users;
for my $user (map { "user$_" } 1 .. 200) { push @{ $users{ $cluster->shard_of($user) } }, $user }
my @shards = sort { $a <=> $b } keys %users;

# Writes a proxy configuration and starts the proxy with it.
sub start_proxy
{
    my ($name, $folder, $text, @command) = @_;
    open my $file, '>', "$folder/$name.conf" or die "could not write: $!";
    print {$file} $text;
    close $file or die "could not write: $!";
    my $proxy = bless { name => $name, log => "$folder/$name.log", command => \@command }, 'Proxy';
    Clairon::Test::remember($proxy);
    $proxy->start;
    return $proxy;
}

# Uses docker/nginx.conf with the upstream of docker/OPERATIONS.md.
sub start_nginx
{
    my ($folder, %ports) = @_;
    my $conf = slurp_file(top() . '/docker/nginx.conf');
    my ($upstream) = slurp_file(top() . '/docker/OPERATIONS.md') =~ /^```\n(upstream clairon \{\n.*?^\}\n)```$/ms;
    is($conf =~ s/^upstream clairon \{\n.*?^\}\n/$upstream/ms, 1, 'the configuration has an upstream');
    is($conf =~ s/10\.0\.0\.1([12]):8080/"127.0.0.1:" . $ports{ 8080 + $1 }/ge, 2, 'the configuration names two relays');
    is($conf =~ s/127\.0\.0\.1:8080/127.0.0.1:$ports{8080}/g, 1, 'the configuration contains an address of the proxy');
    return start_proxy('nginx', $folder,
        "daemon off;\npid $folder/nginx.pid;\nevents { worker_connections 512; }\nhttp {\naccess_log off;\n" .
        join('', map { "${_}_temp_path $folder/$_;\n" } qw(client_body proxy fastcgi uwsgi scgi)) . "$conf}\n",
        '/usr/sbin/nginx', '-p', $folder, '-c', "$folder/nginx.conf", '-e', 'stderr');
}

# Uses the lines in docker/OPERATIONS.md.
sub start_haproxy
{
    my ($folder, %ports) = @_;
    my ($conf) = slurp_file(top() . '/docker/OPERATIONS.md') =~ /^```\n(defaults\n.*?)^```$/ms;
    is($conf =~ s/^(    server \S+ )10\.0\.0\.1([12]):8080/"${1}127.0.0.1:" . $ports{ 8080 + $2 }/gme, 2, 'the configuration names two relays');
    is($conf =~ s/^    bind :8080$/    bind 127.0.0.1:$ports{8080}/m, 1, 'the configuration contains an address of the proxy');
    return start_proxy('haproxy', $folder, $conf, '/usr/sbin/haproxy', '-db', '-f', "$folder/haproxy.conf");
}

sub check_routes
{
    my ($start) = @_;
    my $port = free_port();
    my %conf = ('store.min_replicas' => 0, 'gate.ping' => '1h', 'gate.trusted_proxies' => '127.0.0.1', 'gate.max_per_address' => 1000);
    my @relays = map { Clairon::Test::relay($pg, $cluster, conf => {%conf}) } 1, 2;
    my $proxy = $start->(scratch(), 8080 => $port, 8081 => $relays[0]{port}, 8082 => $relays[1]{port});
    my $followed = sub { my $sum = 0; $sum += $_->metric('clairon_store_followed_shards') for @relays; return $sum };

    my %clients;
    my $connect = sub {
        my ($user, $query) = @_;
        $clients{$user} = wait_until("$user connects with '$query'", sub {
            my $client = eval { Clairon::Test::Client->new("http://127.0.0.1:$port/v1/ws$query") } or return;
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

    is(Mojo::UserAgent->new->get("http://127.0.0.1:$port/metrics")->result->code, 404, 'internal paths are not forwarded');

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

for (['nginx', \&start_nginx], ['haproxy', \&start_haproxy])
{
    my ($name, $start) = @$_;
    subtest $name => sub {
        plan skip_all => "$name is not installed" if !-x "/usr/sbin/$name";
        check_routes($start);
    };
}

done_testing();
